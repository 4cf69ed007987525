// Decides which matrices get padded rows, and copies between padded and canonical ones.
#include "backends/gpu/row_layout.h"

#include <algorithm>
#include <limits>

namespace backends::gpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

constexpr int64_t kRowMultiple = 64;  // elements; 128 bytes, a line of the cache, in 16 bits
// A smaller matrix takes less time than the launch of a kernel, whatever its rows are.
constexpr uint64_t kLeastBytes = 4 << 20;

// Whether the operation may have operand i in a row layout. Outputs follow the inputs.
bool takes_rows(const Operation& op, uint32_t i) {
  const uint32_t inputs = op.input_count();
  const bool output = i >= inputs;
  // Passes behind a product know the canonical layout only.
  if (op.is(RT_OP_MATMUL)) return op.post_op_count() == 0 && op.output_count() == 1;
  if (op.is(RT_OP_COPY)) return true;
  if (!rt::sdk::follows_row_layout(op.name())) return false;
  return output ? rt::sdk::same_dims(op.output(i - inputs), op.input(0)) : i == 0;
}

void expect_one_layout(const Operation& op) {
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    const bool rows = takes_rows(op, op.input_count() + i);
    if (!rows || op.output(i).layout == op.input(0).layout) continue;
    throw Error(
        RT_ERROR_UNSUPPORTED,
        format("%s: output %u is %s, operand 0 is %s; they must have one layout", op.desc().name, i,
               layout_name(op.output(i)).c_str(), layout_name(op.input(0)).c_str()));
  }
}

}  // namespace

uint64_t stored_bytes(const rt_tensor_desc& t) {
  const int64_t width = t.rank > 0 ? t.dims[t.rank - 1] : 1, count = rt::sdk::element_count(t);
  const int64_t rows = width == 0 ? 0 : count / width;
  return static_cast<uint64_t>(rows * row_stride(t)) * rt::sdk::dtype_bytes(t.dtype);
}

void expect_known_layout(const rt_tensor_desc& t) {
  if (t.layout == RT_LAYOUT_CANONICAL) return;
  const bool rows = rt::sdk::is_row_layout(t.layout) && t.rank > 0;
  if (rows && rt::sdk::row_length(t.layout) >= t.dims[t.rank - 1]) return;
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("layout 0x%llx is not one of this device for %s; it knows the canonical one "
                     "(0), and rows that are padded to at least the last dimension",
                     static_cast<unsigned long long>(t.layout), rt::sdk::to_string(t).c_str()));
}

std::string layout_name(const rt_tensor_desc& t) {
  if (t.layout == RT_LAYOUT_CANONICAL) return "canonical";
  return format("rows of %lld", static_cast<long long>(row_stride(t)));
}

bool has_row_layout(const Operation& op) {
  const auto rows = [](const rt_tensor_desc* t) { return rt::sdk::is_row_layout(t->layout); };
  const rt_op_desc& d = op.desc();
  return std::any_of(d.inputs, d.inputs + d.input_count, rows) ||
         std::any_of(d.outputs, d.outputs + d.output_count, rows);
}

bool has_aligned_rows(const rt_tensor_desc& matrix) {
  const auto element = static_cast<int64_t>(rt::sdk::dtype_bytes(matrix.dtype));
  return row_stride(matrix) * element % kRowAlignment == 0;
}

uint64_t layout_for_products(const rt_tensor_desc& matrix) {
  const int64_t width = matrix.rank > 1 ? matrix.dims[matrix.rank - 1] : 0;
  const int64_t padded = (width + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  rt_tensor_desc plain = matrix;
  plain.layout = RT_LAYOUT_CANONICAL;
  if (width == 0 || padded > std::numeric_limits<int32_t>::max() || has_aligned_rows(plain) ||
      stored_bytes(plain) < kLeastBytes)
    return RT_LAYOUT_CANONICAL;
  return rt::sdk::row_layout(static_cast<uint32_t>(padded));
}

Kernel make_row_copy(const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const uint64_t size = rt::sdk::dtype_bytes(x.dtype);
  const uint64_t width = x.rank > 0 ? static_cast<uint64_t>(x.dims[x.rank - 1]) * size : size;
  const uint64_t from = static_cast<uint64_t>(row_stride(x)) * size,
                 to = static_cast<uint64_t>(row_stride(y)) * size;
  const uint64_t rows = width == 0 ? 0 : stored_bytes(x) / from;
  Kernel kernel;
  kernel.run = [=](const Launch& l) {
    if (rows == 0) return;
    check(GPU(Memcpy2DAsync)(l.outputs[0], to, l.inputs[0], from, width, rows,
                             GPU(MemcpyDeviceToDevice), l.stream),
          "copy of rows");
  };
  return kernel;
}

Relaid::Relaid(const Operation& op) : desc_(op.desc()) {
  const auto add = [&](const rt_tensor_desc* t) { tensors_.push_back(*t); };
  std::for_each(desc_.inputs, desc_.inputs + desc_.input_count, add);
  std::for_each(desc_.outputs, desc_.outputs + desc_.output_count, add);
  for (const rt_tensor_desc& t : tensors_) addresses_.push_back(&t);
  desc_.inputs = addresses_.data();
  desc_.outputs = addresses_.data() + desc_.input_count;
}

Relaid::Relaid(const Operation& op, Choose choose) : Relaid(op) {
  for (rt_tensor_desc& t : tensors_) {
    if (t.layout == RT_LAYOUT_ANY) t.layout = choose(t);
  }
}

Relaid Relaid::canonical(const Operation& op) {
  Relaid plain(op);
  if (!has_row_layout(op)) return plain;
  for (uint32_t i = 0; i < plain.tensors_.size(); ++i) {
    rt_tensor_desc& t = plain.tensors_[i];
    if (!rt::sdk::is_row_layout(t.layout)) continue;
    expect_known_layout(t);
    if (!takes_rows(op, i)) {
      throw Error(RT_ERROR_UNSUPPORTED, format("%s takes no operand in the layout '%s' here",
                                               op.desc().name, layout_name(t).c_str()));
    }
    t.layout = RT_LAYOUT_CANONICAL;
  }
  if (rt::sdk::follows_row_layout(op.name())) expect_one_layout(op);
  return plain;
}

bool Relaid::operator==(const Relaid& other) const {
  return std::equal(tensors_.begin(), tensors_.end(), other.tensors_.begin(), other.tensors_.end(),
                    [](const auto& a, const auto& b) { return a.layout == b.layout; });
}

}  // namespace backends::gpu
