// Guesses the time of kernels from nominal limits of a GPU, which stand here as constants.
#include "backends/gpu/estimate.h"

#include <algorithm>

#include "backends/gpu/api.h"
#include "backends/gpu/row_layout.h"

namespace backends::gpu {
namespace {

// Nominal limits for each multiprocessor, per nanosecond: those of an H200 ("NVIDIA H200 Tensor
// Core GPU", data sheet), which has 132, rounded down to what large kernels reach.
constexpr double kBytes = 32;      // 4.3 TB/s
constexpr double kFlops16 = 6000;  // 790 TFLOP/s
constexpr double kFlops32 = 400;   // 53 TFLOP/s, without TF32
constexpr double kLaunch = 2000;   // nanoseconds
// How much longer a product takes if the rows of an operand are not aligned to 16 bytes: the
// library then loads single elements and cannot use the tensor memory accelerator. On an H100 the
// products with a vocabulary of 50,257 take 3.6 to 8 times as long (tools/gpu/RESULTS.md). For AMD
// this is an assumption.
#if defined(BACKENDS_GPU_CUDA)
constexpr double kUnaligned = 6;
#else
constexpr double kUnaligned = 3;
#endif

bool is_aligned_product(const Operation& op) {
  const bool inputs = has_aligned_rows(op.input(0)) && has_aligned_rows(op.input(1));
  return inputs && has_aligned_rows(op.output(0));
}

// Floating-point operations of a product c = a b.
double flops_of(const Operation& op) {
  const rt_tensor_desc& a = op.input(0);
  const bool transposed = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0;
  const int64_t k = a.dims[a.rank - (transposed ? 2 : 1)];
  return 2.0 * static_cast<double>(rt::sdk::element_count(op.output(0))) * static_cast<double>(k);
}

}  // namespace

double estimated_ns(const Properties& properties, const Operation& op, const Kernel& kernel) {
  double bytes = 0, flops = 0;
  for (const Work& work : kernel.work) {
    bytes += work.bytes;
    flops += work.flops;
  }
  if (kernel.work.empty()) {
    for (uint32_t i = 0; i < op.input_count(); ++i) {
      bytes += static_cast<double>(stored_bytes(op.input(i)));
    }
    for (uint32_t i = 0; i < op.output_count(); ++i) {
      bytes += static_cast<double>(stored_bytes(op.output(i)));
    }
  }
  const bool product = op.is(RT_OP_MATMUL);
  if (product) flops = std::max(flops, flops_of(op));
  const bool sixteen = op.input_count() > 0 && rt::sdk::is_sixteen_bit(op.input(0).dtype);
  const double slower = product && !is_aligned_product(op) ? kUnaligned : 1;
  const double computing = flops * slower / (sixteen ? kFlops16 : kFlops32);
  const double ns = std::max(bytes / kBytes, computing) / properties.multiprocessors;
  return ns + kLaunch * static_cast<double>(std::max<size_t>(kernel.work.size(), 1));
}

}  // namespace backends::gpu
