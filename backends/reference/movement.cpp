// transpose, concat, slice, pad, cast, copy and fill. All but cast and fill move elements of any
// type as bytes.
#include <algorithm>
#include <cstring>

#include "backends/reference/families.h"
#include "backends/reference/sixteen_bit.h"
#include "backends/reference/strided.h"
#include "rt/sdk/elementwise.h"

namespace backends::reference {
namespace {

constexpr uint64_t kNumeric = RT_DTYPE_BIT(RT_FLOAT32) | RT_DTYPE_BIT(RT_FLOAT64) |
                              RT_DTYPE_BIT(RT_FLOAT16) | RT_DTYPE_BIT(RT_BFLOAT16) |
                              RT_DTYPE_BIT(RT_INT32) | RT_DTYPE_BIT(RT_INT64) |
                              RT_DTYPE_BIT(RT_UINT8) | RT_DTYPE_BIT(RT_INT8);

// Bytes of one element. Throws Refusal for an unknown type.
int64_t element_bytes(const Operation& op, const rt_tensor_desc& tensor, int32_t operand) {
  const auto bytes = static_cast<int64_t>(rt::sdk::dtype_bytes(tensor.dtype));
  if (bytes == 0) {
    throw Refusal(operand,
                  std::string(op.name()) + ": unknown type " + rt::sdk::to_string(tensor.dtype));
  }
  return bytes;
}

void expect_numeric(const Operation& op, rt_dtype dtype, int32_t operand) {
  if (dtype > 0 && dtype < 64 && (kNumeric & RT_DTYPE_BIT(dtype)) != 0) return;
  throw Refusal(operand, std::string(op.name()) + ": type " + rt::sdk::to_string(dtype) +
                             "; the reference converts the four floating types, int32, int64, "
                             "uint8 and int8");
}

// Calls body.operator()<T>() with the C++ type of `dtype`.
template <typename Body>
auto for_numeric(rt_dtype dtype, Body&& body) {
  switch (dtype) {
    case RT_FLOAT64:
      return body.template operator()<double>();
    case RT_FLOAT16:
      return body.template operator()<Float16>();
    case RT_BFLOAT16:
      return body.template operator()<BFloat16>();
    case RT_INT32:
      return body.template operator()<int32_t>();
    case RT_INT64:
      return body.template operator()<int64_t>();
    case RT_UINT8:
      return body.template operator()<uint8_t>();
    case RT_INT8:
      return body.template operator()<int8_t>();
    default:
      return body.template operator()<float>();
  }
}

// An array divided at one axis: [before, length, after], with `after` in bytes.
struct Around {
  int64_t before, after;
};

Around around(const Dims& dims, int64_t axis, int64_t bytes) {
  Around a{1, bytes};
  for (size_t d = 0; d < dims.size(); ++d) {
    (static_cast<int64_t>(d) < axis ? a.before : a.after) *=
        static_cast<int64_t>(d) == axis ? 1 : dims[d];
  }
  return a;
}

// Checks that `part` has the dims of `whole` except along `axis`, and that it fits there from the
// attribute `start` on. Returns `start`.
int64_t expect_part(const Operation& op, const Dims& whole, const Dims& part, int64_t axis) {
  const int64_t start = integer_at_least(op, RT_ATTR_START, 0, 0);
  Dims same = whole;
  if (part.size() == whole.size()) same[axis] = part[axis];
  if (same != part || part[axis] > whole[axis] - start) {
    op.fail(
        rt::sdk::format("%s from %lld along axis %lld does not fit %s: the other dimensions "
                        "must be equal and start + length at most the whole's",
                        to_string(part).c_str(), static_cast<long long>(start),
                        static_cast<long long>(axis), to_string(whole).c_str()));
  }
  return start;
}

Kernel make_transpose_of(const StridedRows<1>& rows, int64_t bytes) {
  Kernel kernel;
  kernel.run = [rows, bytes](const Buffers& b) {
    const char* x = b.input<char>(0);
    char* y = b.output<char>(0);
    rows.for_each([&](int64_t out, const std::array<int64_t, 1>& in) {
      for (int64_t i = 0; i < rows.length(); ++i) {
        std::memcpy(y + (out + i) * bytes, x + (in[0] + i * rows.step(0)) * bytes,
                    static_cast<size_t>(bytes));
      }
    });
  };
  return kernel;
}

}  // namespace

Kernel make_transpose(const Operation& op) {
  expect_counts(op, 1, 1);
  const rt_tensor_desc& x = op.input(0);
  const int64_t bytes = element_bytes(op, x, 0);
  const int64_t permutation = op.integer(RT_ATTR_PERMUTATION);
  const Dims from = dims_of(x), strides = strides_of(from);
  Dims to, read;
  uint32_t seen = 0;
  for (int32_t i = 0; i < x.rank; ++i) {
    const int64_t axis = permutation >> (4 * i) & 15;
    if (axis >= x.rank || (seen >> axis & 1) != 0) {
      op.fail(
          rt::sdk::format("permutation 0x%llx names axis %lld at place %d, expected each of "
                          "0..%d once",
                          static_cast<unsigned long long>(permutation),
                          static_cast<long long>(axis), i, x.rank - 1));
    }
    seen |= 1u << axis;
    to.push_back(from[axis]);
    read.push_back(strides[axis]);
  }
  expect_output(op, 0, "y", x.dtype, to);
  return make_transpose_of(StridedRows<1>(to, {read}), bytes);
}

Kernel make_concat(const Operation& op) {
  const uint32_t count = op.own_input_count();
  expect_counts(op, std::max(count, 1u), 1);
  const rt_tensor_desc& first = input_of_min_rank(op, 0, "x0", 1);
  const int64_t bytes = element_bytes(op, first, 0);
  const int64_t axis = axis_of(op, first.rank);
  Dims whole = dims_of(first);
  whole[axis] = 0;
  std::vector<int64_t> lengths;
  for (uint32_t i = 0; i < count; ++i) {
    Dims part = whole;
    part[axis] = input_of_rank(op, i, "x", first.rank).dims[axis];
    expect_input(op, i, "x", first.dtype, part);
    lengths.push_back(part[axis]);
  }
  for (const int64_t length : lengths) whole[axis] += length;
  expect_output(op, 0, "y", first.dtype, whole);
  const Around a = around(whole, axis, bytes);
  Kernel kernel;
  kernel.run = [a, lengths](const Buffers& b) {
    char* y = b.output<char>(0);
    for (int64_t row = 0; row < a.before; ++row) {
      for (uint32_t i = 0; i < lengths.size(); ++i) {
        const int64_t part = lengths[i] * a.after;
        std::copy_n(b.input<char>(i) + row * part, part, y);
        y += part;
      }
    }
  };
  return kernel;
}

Kernel make_slice(const Operation& op) {
  expect_counts(op, 1, 1);
  const rt_tensor_desc& x = input_of_min_rank(op, 0, "x", 1);
  const int64_t bytes = element_bytes(op, x, 0);
  const int64_t axis = axis_of(op, x.rank);
  const Dims whole = dims_of(x), part = dims_of(op.output(0));
  const int64_t start = expect_part(op, whole, part, axis);
  expect_output(op, 0, "y", x.dtype, part);
  const Around a = around(whole, axis, bytes);
  const int64_t length = part[axis] * a.after, stride = whole[axis] * a.after;
  Kernel kernel;
  kernel.run = [=](const Buffers& b) {
    for (int64_t row = 0; row < a.before; ++row) {
      std::copy_n(b.input<char>(0) + row * stride + start * a.after, length,
                  b.output<char>(0) + row * length);
    }
  };
  return kernel;
}

Kernel make_pad(const Operation& op) {
  expect_counts(op, 1, 1);
  const rt_tensor_desc& x = input_of_min_rank(op, 0, "x", 1);
  const int64_t bytes = element_bytes(op, x, 0);
  const int64_t axis = axis_of(op, x.rank);
  const Dims whole = dims_of(op.output(0)), part = dims_of(x);
  const rt_tensor_desc& y = output_of_rank(op, 0, "y", x.rank);
  const int64_t start = expect_part(op, whole, part, axis);
  expect_output(op, 0, "y", x.dtype, dims_of(y));
  const Around a = around(whole, axis, bytes);
  const int64_t length = part[axis] * a.after, stride = whole[axis] * a.after;
  Kernel kernel;
  kernel.run = [=](const Buffers& b) {
    std::fill_n(b.output<char>(0), a.before * stride, char(0));
    for (int64_t row = 0; row < a.before; ++row) {
      std::copy_n(b.input<char>(0) + row * length, length,
                  b.output<char>(0) + row * stride + start * a.after);
    }
  };
  return kernel;
}

Kernel make_cast(const Operation& op) {
  expect_counts(op, 1, 1);
  const rt_dtype from = op.input(0).dtype, to = op.output(0).dtype;
  expect_numeric(op, from, 0);
  expect_numeric(op, to, 100);
  expect_output(op, 0, "y", to, dims_of(op.input(0)));
  const int64_t count = rt::sdk::element_count(op.input(0));
  return for_numeric(from, [&]<typename From>() {
    return for_numeric(to, [&]<typename To>() {
      Kernel kernel;
      kernel.run = [count](const Buffers& b) {
        const From* x = b.input<From>(0);
        To* y = b.output<To>(0);
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(x[i]);
      };
      return kernel;
    });
  });
}

Kernel make_copy(const Operation& op) {
  const rt_tensor_desc& x = op.input(0);
  const int64_t count = rt::sdk::unary_count(op, x.dtype);
  const int64_t bytes = count * element_bytes(op, x, 0);
  Kernel kernel;
  kernel.run = [bytes](const Buffers& b) {
    std::copy_n(b.input<char>(0), bytes, b.output<char>(0));
  };
  return kernel;
}

Kernel make_fill(const Operation& op) {
  expect_counts(op, 0, 1);
  const rt_tensor_desc& y = op.output(0);
  expect_numeric(op, y.dtype, 100);
  const double value = op.number(RT_ATTR_VALUE, 0.0);
  const int64_t count = rt::sdk::element_count(y);
  return for_numeric(y.dtype, [&]<typename T>() {
    Kernel kernel;
    kernel.run = [=](const Buffers& b) {
      std::fill_n(b.output<T>(0), count, static_cast<T>(value));
    };
    return kernel;
  });
}

}  // namespace backends::reference
