// The description of a convolution that cuDNN and MIOpen receive, computed literally, gives the
// result of the reference.
#include "backends/gpu/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/reference/kernel.h"
#include "plugins/conformance/conformance.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using backends::gpu::Convolution;
using backends::gpu::Direction;
using backends::gpu::Tensor4;
using Buffer = std::vector<double>;

Buffer random_buffer(const rt_tensor_desc& tensor, std::mt19937& random) {
  Buffer buffer(static_cast<size_t>(rt::sdk::element_count(tensor)));
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (double& x : buffer) x = uniform(random);
  return buffer;
}

double& at(Buffer& data, const Tensor4& t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return data.at(static_cast<size_t>(a * t.strides[0] + b * t.strides[1] + c * t.strides[2] +
                                     d * t.strides[3]));
}

// Calls body(image element, weight, result element) for every product that the convolution adds.
template <typename Body>
void for_each_product(const Convolution& c, Buffer& image, Buffer& weights, Buffer& result,
                      Body&& body) {
  const auto& [n, o, p, q] = c.result.dims;
  const int64_t of_group = c.weights.dims[1], groups = c.image.dims[1] / of_group;
  for (int64_t i = 0; i < n * o * p * q; ++i) {
    const int64_t in = i / (o * p * q), io = i / (p * q) % o, ip = i / q % p, iq = i % q;
    const int64_t first = io / (o / groups) * of_group;
    for (int64_t k = 0; k < of_group * c.weights.dims[2] * c.weights.dims[3]; ++k) {
      const int64_t kc = k / (c.weights.dims[2] * c.weights.dims[3]),
                    kh = k / c.weights.dims[3] % c.weights.dims[2], kw = k % c.weights.dims[3];
      const int64_t h = ip * c.stride[0] - c.pad_before[0] + kh * c.dilation[0],
                    w = iq * c.stride[1] - c.pad_before[1] + kw * c.dilation[1];
      if (h < 0 || w < 0 || h >= c.image.dims[2] || w >= c.image.dims[3]) continue;
      body(at(image, c.image, in, first + kc, h, w), at(weights, c.weights, io, kc, kh, kw),
           at(result, c.result, in, io, ip, iq));
    }
  }
}

void run(const Convolution& c, std::vector<Buffer>& inputs, Buffer& output) {
  const auto buffer = [&](const Tensor4& t) -> Buffer& {
    return t.is_output ? output : inputs[t.index];
  };
  std::fill(output.begin(), output.end(), 0.0);
  for_each_product(c, buffer(c.image), buffer(c.weights), buffer(c.result),
                   [&](double& x, double& w, double& y) {
                     if (c.direction == Direction::kForward) y += x * w;
                     if (c.direction == Direction::kBackwardData) x += y * w;
                     if (c.direction == Direction::kBackwardWeights) w += x * y;
                   });
  const size_t channels = static_cast<size_t>(c.result.dims[1]);
  for (size_t i = 0; i < output.size() && c.fused > 0; ++i) {
    if (c.residual >= 0) output[i] += inputs[static_cast<size_t>(c.residual)][i];
    if (c.bias >= 0) output[i] += inputs[static_cast<size_t>(c.bias)][i % channels];
  }
}

// The result of the reference in float64; the first one of two outputs.
Buffer expected(const backends::reference::Kernel& kernel, const host::Operation& op,
                const std::vector<Buffer>& inputs) {
  std::vector<const void*> from;
  for (const Buffer& input : inputs) from.push_back(input.data());
  std::vector<Buffer> results;
  std::vector<void*> to;
  for (const rt_tensor_desc& t : op.outputs) {
    results.emplace_back(static_cast<size_t>(rt::sdk::element_count(t)));
    to.push_back(results.back().data());
  }
  std::vector<double> workspace(kernel.workspace_bytes / sizeof(double) + 1);
  kernel.run({from.data(), to.data(), workspace.data(), nullptr});
  return results[0];
}

void check(const conformance::Case& c, int& whole) {
  const host::OperationView view(c.operation);
  const rt::sdk::Operation op(view.get());
  const auto convolution = backends::gpu::convolution_of(op, op.post_op_count());
  ASSERT_EQ(convolution.has_value(), op.input(0).dims[0] > 0) << c.name;  // "empty batch" has none
  if (!convolution || convolution->fused < op.post_op_count()) return;
  ++whole;
  std::mt19937 random(3);
  std::vector<Buffer> inputs;
  for (const rt_tensor_desc& t : c.operation.inputs) inputs.push_back(random_buffer(t, random));
  const Buffer wanted = expected(backends::reference::make_kernel(op), c.operation, inputs);
  Buffer output(wanted.size(), NAN);
  run(*convolution, inputs, output);
  for (size_t i = 0; i < output.size(); ++i) ASSERT_NEAR(output[i], wanted[i], 1e-11) << c.name;
}

TEST(GpuConvolution, DoneByTheLetterIsThatOfTheReference) {
  int whole = 0;
  for (const char* name :
       {RT_OP_CONV2D, RT_OP_CONV2D_BACKWARD_DATA, RT_OP_CONV2D_BACKWARD_WEIGHTS}) {
    for (const conformance::Case& c : conformance::cases_of(name)) {
      if (c.dtype == RT_FLOAT64) check(c, whole);
    }
  }
  EXPECT_GT(whole, 50);
}

}  // namespace
