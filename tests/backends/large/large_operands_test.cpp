// Operands of more elements than 32 bits count. All but a few rows of the large operands are zeros:
// the first one, those around element 2^31 or 2^32, and the last. What becomes of these rows is
// what becomes of the same rows alone.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "plugins/conformance/builder.h"
#include "plugins/conformance/values.h"
#include "plugins/conformance/variants.h"
#include "plugins/host/launch.h"
#include "rt/sdk/foreign_layout.h"
#include "runtime/system/available_memory.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using conformance::Builder;
using conformance::Bytes;
using conformance::Case;
using conformance::Values;

constexpr int64_t kFew = 4;  // rows that hold numbers
// Threads of a processor. The last one begins behind the boundary, because a sixteenth of the rows
// lies there.
constexpr int kThreads = 32;
// The rows of both operations begin at the same distance from a multiple of 16 bytes if their
// numbers agree in this remainder, so that sums are made in the same order.
constexpr int64_t kSame = 16;

// A processor computes in float32, and with few terms in each sum, because it is slow.
#if defined(ON_PROCESSOR)
constexpr bool kOnProcessor = true;
constexpr rt_dtype kType = RT_FLOAT32;
constexpr int64_t kTerms = 6;
#else
constexpr bool kOnProcessor = false;
constexpr rt_dtype kType = RT_BFLOAT16;
constexpr int64_t kTerms = 256;
#endif

// A case for a number of rows. Operands whose first dimension it is are rows; the others, whose
// first dimension is never kFew, are shared by all rows. A shared result is a sum over rows.
struct Large {
  const char* name;
  std::function<Case(int64_t rows)> make;
  double tolerance = 0;  // relative, in the norm of a row or of a shared result
};

void PrintTo(const Large& large, std::ostream* to) { *to << large.name; }

Builder rows_of(const char* op, int64_t rows, int64_t width, rt_dtype dtype = kType) {
  return Builder(op, dtype, "rows").in({rows, width}, Values{-5, 5});
}
Builder images(const char* op, int64_t rows) {
  return Builder(op, RT_FLOAT32, "rows").in({rows, 16, 16, 4}, Values{-5, 5});
}

Builder classification(const char* op, int64_t rows) {
  Builder b = rows_of(op, rows, 50257);
  b.in_of(RT_INT32, {rows}, Values{0, 50000, 2});
  return b.wide_in({rows}, Values{0.1, 1});
}

Case cross_entropy_with_gradient(int64_t rows, uint64_t layout) {
  Case c = classification(RT_OP_CROSS_ENTROPY_WITH_GRADIENT, rows)
               .wide_in({1})
               .wide_out({1})
               .out({rows, 50257});
  c.operation.inputs[0].layout = c.operation.outputs[1].layout = layout;
  return c;
}

// A product that has the rows in its result (the logits), sums over the width of the rows (the
// gradient of x), or sums over the rows (that of the weights).
Case logits(int64_t rows) {
  Case c = Builder(RT_OP_MATMUL, kType, "rows")
               .in({rows, kTerms})
               .in({kTerms, 50257})
               .out({rows, 50257});
  if (rows > kFew && !kOnProcessor) c.operation.outputs[0].layout = RT_LAYOUT_ANY;
  return c;
}
Case gradient_of_x(int64_t rows) {
  return rows_of(RT_OP_MATMUL, rows, 50257)
      .in({8, 50257})
      .out({rows, 8})
      .integer(RT_ATTR_TRANSPOSE_B, 1);
}
Case gradient_of_weights(int64_t rows) {
  return rows_of(RT_OP_MATMUL, rows, 50257)
      .in({rows, 8})
      .out({50257, 8})
      .integer(RT_ATTR_TRANSPOSE_A, 1);
}

const std::vector<Large>& products() {
  static const std::vector<Large> cases = {
      {"matmul", logits, 0x1p-7},
      {"matmul_transposed_b", gradient_of_x, 0x1p-7},
      {"matmul_transposed_a", gradient_of_weights, 0x1p-7},
      {"conv2d",
       [](int64_t rows) -> Case {
         return images(RT_OP_CONV2D, rows).in({6, 1, 1, 4}).out({rows, 16, 16, 6});
       },
       1e-5},
      {"conv2d_backward_weights",
       [](int64_t rows) -> Case {
         return images(RT_OP_CONV2D_BACKWARD_WEIGHTS, rows).in({rows, 16, 16, 6}).out({6, 1, 1, 4});
       },
       1e-5}};
  return cases;
}

const std::vector<Large>& losses() {
  static const std::vector<Large> cases = {
      {"cross_entropy",
       [](int64_t rows) -> Case { return classification(RT_OP_CROSS_ENTROPY, rows).wide_out({1}); },
       1e-6},
      {"cross_entropy_with_gradient",
       [](int64_t rows) { return cross_entropy_with_gradient(rows, RT_LAYOUT_CANONICAL); }, 1e-6},
      {"cross_entropy_with_gradient_in_rows_of_50304",
       [](int64_t rows) { return cross_entropy_with_gradient(rows, rt::sdk::row_layout(50304)); },
       1e-6},
      {"cross_entropy_backward",
       [](int64_t rows) -> Case {
         return classification(RT_OP_CROSS_ENTROPY_BACKWARD, rows).wide_in({1}).out({rows, 50257});
       }},
      {"softmax", [](int64_t rows) -> Case {
         return rows_of(RT_OP_SOFTMAX, rows, 50257).out({rows, 50257});
       }}};
  return cases;
}

const std::vector<Large>& movements() {
  static const std::vector<Large> cases = {
      {"copy",
       [](int64_t rows) -> Case {
         return rows_of(RT_OP_COPY, rows, 1024).out({rows, 1024});
       }},
      {"cast",
       [](int64_t rows) -> Case {
         const rt_dtype to = kOnProcessor ? RT_INT32 : RT_FLOAT32;
         return rows_of(RT_OP_CAST, rows, 1024).out_of(to, {rows, 1024});
       }},
      {"transpose",
       [](int64_t rows) -> Case {
         return Builder(RT_OP_TRANSPOSE, kType, "rows")
             .in({rows, 32, 32})
             .out({rows, 32, 32})
             .integer(RT_ATTR_PERMUTATION, 0x120);
       }},
      {"embedding",
       [](int64_t rows) -> Case {
         return Builder(RT_OP_EMBEDDING, kType, "rows")
             .in_of(RT_INT32, {rows}, Values{0, 100})
             .in({100, 1024})
             .out({rows, 1024});
       }},
      {"embedding_backward",
       [](int64_t rows) -> Case {
         return Builder(RT_OP_EMBEDDING_BACKWARD, kType, "rows")
             .in_of(RT_INT32, {rows}, Values{0, 100})
             .in({rows, 1024})
             .out({100, 1024});
       },
       1e-6}};
  return cases;
}

// They are left out on the reference, which would take minutes.
[[maybe_unused]] const std::vector<Large>& others() {
  static const std::vector<Large> cases = {
      {"attention",
       [](int64_t rows) -> Case {
         return Builder(RT_OP_ATTENTION, kType, "rows")
             .in({rows, 16, 3 * 32})
             .out({rows, 16, 32})
             .integer(RT_ATTR_HEADS, 2);
       },
       kOnProcessor ? 1e-6 : 0x1p-7},
      {"layer_norm",
       [](int64_t rows) -> Case {
         return rows_of(RT_OP_LAYER_NORM, rows, 1024)
             .wide_in({1024})
             .wide_in({1024})
             .out({rows, 1024})
             .number(RT_ATTR_EPSILON, 1e-5);
       }},
      {"activation",
       [](int64_t rows) -> Case {
         return rows_of(RT_OP_ACTIVATION, rows, 1024)
             .out({rows, 1024})
             .integer(RT_ATTR_FUNCTION, kOnProcessor ? RT_ACTIVATION_RELU : RT_ACTIVATION_GELU);
       }},
      {"add",
       [](int64_t rows) -> Case {
         return rows_of(RT_OP_ADD, rows, 1024).in({1024}).out({rows, 1024});
       }},
      {"reduce",
       [](int64_t rows) -> Case {
         return rows_of(RT_OP_REDUCE, rows, 1024)
             .out({rows, 1})
             .integer(RT_ATTR_AXES, 2)
             .integer(RT_ATTR_FUNCTION, RT_REDUCE_SUM);
       }},
      {"sum_over_rows",
       [](int64_t rows) -> Case {
         return rows_of(RT_OP_REDUCE, rows, 1024)
             .out({1, 1024})
             .integer(RT_ATTR_AXES, 1)
             .integer(RT_ATTR_FUNCTION, RT_REDUCE_SUM);
       },
       kOnProcessor ? 1e-6 : 0x1p-7},
      {"max_pool2d",
       [](int64_t rows) -> Case {
         return images(RT_OP_MAX_POOL2D, rows)
             .out({rows, 8, 8, 4})
             .integer(RT_ATTR_KERNEL_H, 2)
             .integer(RT_ATTR_KERNEL_W, 2)
             .integer(RT_ATTR_STRIDE_H, 2)
             .integer(RT_ATTR_STRIDE_W, 2);
       }},
      {"sgd", [](int64_t rows) -> Case {
         return rows_of(RT_OP_SGD, rows, 1024, RT_FLOAT32)
             .in({rows, 1024})
             .in({1})
             .in({1})
             .out({rows, 1024});
       }}};
  return cases;
}

std::shared_ptr<host::Plugin> plugin() {
  const std::filesystem::path built = PLUGIN;
  const char* const folder = std::getenv("RUNTIME_TEST_PLUGINS");
  return host::Plugin::load(folder == nullptr ? built : folder / built.filename(), {});
}

// Zeros of a device, or of the processor, whose memory takes room only where it was written.
class Zeros {
 public:
  Zeros(const std::shared_ptr<host::Device>& device, host::Stream& stream, uint64_t bytes)
      : bytes_(std::max<uint64_t>(bytes, 16)) {
    if (!kOnProcessor) {
      memory_ = device->allocate(bytes_);
      stream.fill(memory_.data(), 0, bytes_);
      return;
    }
    mapped_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::runtime_error("mmap failed");
  }
  ~Zeros() {
    if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
  }
  Zeros(Zeros&& other) noexcept
      : memory_(std::move(other.memory_)),
        mapped_(std::exchange(other.mapped_, nullptr)),
        bytes_(other.bytes_) {}
  Zeros& operator=(Zeros&&) = delete;
  void* data() const { return mapped_ == nullptr ? memory_.data() : mapped_; }

 private:
  host::Memory memory_;
  void* mapped_ = nullptr;
  uint64_t bytes_;
};

// The operands of one launch on the device.
class Launched {
 public:
  Launched(const std::shared_ptr<host::Device>& device, Case c)
      : device_(device), case_(std::move(c)) {
    for (const rt_tensor_desc& t : case_.operation.inputs) add(t, inputs_);
    for (const rt_tensor_desc& t : case_.operation.outputs) add(t, outputs_);
  }
  // Copies rows, or all of an operand, to input i.
  void write(size_t i, int64_t row, const Bytes& bytes) {
    auto* to = static_cast<std::byte*>(inputs_[i].data());
    stream_.copy(to + row * row_bytes(case_.operation.inputs[i]), bytes.data(), bytes.size());
    stream_.synchronize();
  }
  // Reads a row of output i without its padding, or all of a shared one.
  Bytes read(size_t i, int64_t row) { return read(i, row, case_.operation.outputs[i].dims[0]); }
  Bytes read_all(size_t i) { return read(i, 0, 1); }
  void run() {
    host::Kernel kernel = device_->create_kernel(case_.operation);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const Zeros& m : inputs_) inputs.push_back(m.data());
    for (const Zeros& m : outputs_) outputs.push_back(m.data());
    const Zeros workspace(device_, stream_, kernel.info().workspace_bytes),
        saved(device_, stream_, kernel.info().saved_bytes);
    kernel.launch(stream_, host::make_launch(inputs, outputs, workspace.data(), saved.data()));
    stream_.synchronize();
  }
  // Bytes from one row to the next.
  int64_t row_bytes(const rt_tensor_desc& t) {
    return static_cast<int64_t>(device_->layout_bytes(t)) / t.dims[0];
  }

 private:
  // Row `row` of output i, which has `rows` rows.
  Bytes read(size_t i, int64_t row, int64_t rows) {
    const rt_tensor_desc& t = case_.operation.outputs[i];
    const auto* from = static_cast<const std::byte*>(outputs_[i].data()) + row * row_bytes(t);
    Bytes to(static_cast<size_t>(rt::sdk::element_count(t) / rows) * rt::sdk::dtype_bytes(t.dtype));
    stream_.copy(to.data(), from, to.size());
    stream_.synchronize();
    return to;
  }
  void add(const rt_tensor_desc& t, std::vector<Zeros>& to) {
    to.emplace_back(device_, stream_, device_->layout_bytes(t));
  }
  std::shared_ptr<host::Device> device_;
  Case case_;
  host::Stream stream_ = device_->create_stream();
  std::vector<Zeros> inputs_, outputs_;
};

// The places of the few rows among `rows` rows of `width` elements, two of them around element
// number `boundary`; place i is i modulo kSame.
std::vector<int64_t> places_of(int64_t rows, int64_t width, int64_t boundary) {
  const int64_t before = boundary / width / kSame * kSame;
  return {0, before + 1, before + kSame + 2, rows - 1};
}

bool has_rows(const rt_tensor_desc& t) { return t.dims[0] == kFew; }

// Writes the inputs of the few rows to both; `places` has their rows in `large`.
void write_inputs(const Case& few, const std::vector<int64_t>& places, Launched& small,
                  Launched& large) {
  for (size_t i = 0; i < few.inputs.size(); ++i) {
    rt_tensor_desc dense = few.operation.inputs[i];
    dense.layout = RT_LAYOUT_CANONICAL;
    const Bytes values = conformance::make_values(dense, few.inputs[i]);
    const size_t each = has_rows(dense) ? values.size() / kFew : values.size();
    for (size_t r = 0; r * each < values.size(); ++r) {
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(r * each);
      const Bytes row(from, from + static_cast<std::ptrdiff_t>(each));
      small.write(i, static_cast<int64_t>(r), row);
      large.write(i, has_rows(dense) ? places[r] : 0, row);
    }
  }
}

void compare(const Case& few, const std::vector<int64_t>& places, double tolerance, Launched& small,
             Launched& large) {
  for (size_t i = 0; i < few.operation.outputs.size(); ++i) {
    const rt_tensor_desc& y = few.operation.outputs[i];
    const auto error = [&](const Bytes& actual, const Bytes& expected) {
      return conformance::relative_error(y.dtype, actual, expected);
    };
    if (!has_rows(y)) {
      EXPECT_LE(error(large.read_all(i), small.read_all(i)), tolerance) << "output " << i;
      continue;
    }
    for (int64_t r = 0; r < kFew; ++r) {
      const int64_t place = places[static_cast<size_t>(r)];
      EXPECT_LE(error(large.read(i, place), small.read(i, r)), tolerance)
          << "output " << i << ", row " << place;
    }
  }
}

// The largest number of elements in a row of an operand.
int64_t width_of(const Case& few) {
  int64_t width = 1;
  for (const auto* list : {&few.operation.inputs, &few.operation.outputs}) {
    for (const rt_tensor_desc& t : *list) {
      if (has_rows(t)) width = std::max(width, rt::sdk::element_count(t) / kFew);
    }
  }
  return width;
}

// The number of elements behind which an operand counts as large. Where only operands that are read
// are large, on a processor, they take no room, and unsigned numbers of 32 bits fail, too.
int64_t boundary_of(const Case& few, int64_t width) {
  const auto is_large = [&](const rt_tensor_desc& t) {
    return has_rows(t) && rt::sdk::element_count(t) / kFew > width / 16;
  };
  const auto& outputs = few.operation.outputs;
  const bool writes = std::any_of(outputs.begin(), outputs.end(), is_large);
  return int64_t{1} << (kOnProcessor && !writes ? 32 : 31);
}

// Why the device has no room for large operands; empty if it has. On a processor, only the results
// and the few rows take room.
std::string no_room(host::Device& device) {
  if (kOnProcessor) {
    const bool room = runtime::system::available_memory() >= 11'000'000'000;
    return room ? "" : "needs 11 GB of available memory";
  }
  const bool room = device.memory_info().free_bytes >= uint64_t{40} << 30;
  return room ? "" : "needs a device with 40 GiB of free memory";
}

class LargeOperands : public testing::TestWithParam<Large> {};

TEST_P(LargeOperands, GiveWhatTheSameRowsGiveAlone) {
  const host::DeviceInfo found = host::list_devices(*plugin()).at(0);
  if (!found.usable()) GTEST_SKIP() << found.properties.unusable_reason;
  const auto device = host::Device::open(plugin(), 0, {kThreads, {}});
  if (const std::string reason = no_room(*device); !reason.empty()) GTEST_SKIP() << reason;
  const Case few = GetParam().make(kFew);
  const int64_t width = width_of(few), boundary = boundary_of(few, width);
  // The last row, which is number kFew - 1 of the few, is far behind the boundary.
  const int64_t rows = (boundary / width / kSame * 17 / 16 + 64) * kSame + kFew;
  const std::vector<int64_t> places = places_of(rows, width, boundary);
  Case many = GetParam().make(rows);
  const host::Support support = device->query(many.operation);
  if (support.level == RT_SUPPORT_REFUSED) GTEST_SKIP() << support.reason;
  Launched small(device, few);
  for (const rt_candidate& candidate : support.candidates) {
    SCOPED_TRACE(std::string(candidate.implementation) + ", layout of the result " +
                 std::to_string(candidate.output_layouts[0]));
    many.operation.algorithm = candidate.algorithm;
    for (size_t j = 0; j < many.operation.outputs.size(); ++j)
      many.operation.outputs[j].layout = candidate.output_layouts[j];
    try {
      Launched large(device, many);
      write_inputs(few, places, small, large);
      small.run();
      large.run();
      compare(few, places, GetParam().tolerance, small, large);
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
  }
}

std::string name_of(const testing::TestParamInfo<Large>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Products, LargeOperands, testing::ValuesIn(products()), name_of);
INSTANTIATE_TEST_SUITE_P(Losses, LargeOperands, testing::ValuesIn(losses()), name_of);
INSTANTIATE_TEST_SUITE_P(Movements, LargeOperands, testing::ValuesIn(movements()), name_of);
#if !defined(ON_REFERENCE)
INSTANTIATE_TEST_SUITE_P(Others, LargeOperands, testing::ValuesIn(others()), name_of);
#endif

}  // namespace
