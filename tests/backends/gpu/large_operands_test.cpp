// Operands of more elements than 32 bits count, on a device with room for them. A few rows of the
// large operands hold numbers: the first, those around element 2^31, and the last. What becomes of
// them is what becomes of the same rows alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "plugins/conformance/builder.h"
#include "plugins/conformance/values.h"
#include "plugins/conformance/variants.h"
#include "rt/sdk/foreign_layout.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using conformance::Builder;
using conformance::Bytes;
using conformance::Case;
using conformance::Values;

constexpr int64_t kBoundary = int64_t{1} << 31;  // elements
constexpr int64_t kFew = 4;                      // rows that hold numbers
// The rows of both operations begin at the same distance from a multiple of 16 bytes if their
// numbers agree in this remainder, so that sums are made in the same order.
constexpr int64_t kSame = 16;

// A case for a number of rows. Operands whose first dimension it is are rows; the others are shared
// by all rows.
struct Large {
  const char* name;
  std::function<Case(int64_t rows)> make;
  double tolerance = 0;  // relative, in the norm of a row
};

Builder classification(const char* op, int64_t rows, int64_t width) {
  Builder b(op, RT_BFLOAT16, "rows");
  b.in({rows, width}, Values{-5, 5}).in_of(RT_INT32, {rows}, Values{0, 50000, 2});
  return b.wide_in({rows}, Values{0.1, 1});
}

Case cross_entropy_with_gradient(int64_t rows, uint64_t layout) {
  Case c = classification(RT_OP_CROSS_ENTROPY_WITH_GRADIENT, rows, 50257)
               .wide_in({1})
               .wide_out({1})
               .out({rows, 50257});
  c.operation.inputs[0].layout = c.operation.outputs[1].layout = layout;
  return c;
}

Builder row_wise(const char* op, rt_dtype dtype, int64_t rows) {
  return Builder(op, dtype, "rows").in({rows, 1024}, Values{-5, 5});
}

const std::vector<Large>& large_cases() {
  static const std::vector<Large> cases = {
      {"matmul",
       [](int64_t rows) -> Case {
         Case c = Builder(RT_OP_MATMUL, RT_BFLOAT16, "rows")
                      .in({rows, 256})
                      .in({256, 50257})
                      .out({rows, 50257});
         if (rows > kFew) c.operation.outputs[0].layout = RT_LAYOUT_ANY;
         return c;
       },
       0x1p-7},
      {"cross_entropy_with_gradient",
       [](int64_t rows) { return cross_entropy_with_gradient(rows, RT_LAYOUT_CANONICAL); }},
      {"cross_entropy_with_gradient_in_rows_of_50304",
       [](int64_t rows) { return cross_entropy_with_gradient(rows, rt::sdk::row_layout(50304)); }},
      {"cross_entropy_backward",
       [](int64_t rows) -> Case {
         return classification(RT_OP_CROSS_ENTROPY_BACKWARD, rows, 50257)
             .wide_in({1})
             .out({rows, 50257});
       }},
      {"softmax",
       [](int64_t rows) -> Case {
         return row_wise(RT_OP_SOFTMAX, RT_BFLOAT16, rows).out({rows, 1024});
       }},
      {"layer_norm",
       [](int64_t rows) -> Case {
         return row_wise(RT_OP_LAYER_NORM, RT_BFLOAT16, rows)
             .wide_in({1024})
             .wide_in({1024})
             .out({rows, 1024})
             .number(RT_ATTR_EPSILON, 1e-5);
       }},
      {"activation",
       [](int64_t rows) -> Case {
         return row_wise(RT_OP_ACTIVATION, RT_BFLOAT16, rows)
             .out({rows, 1024})
             .integer(RT_ATTR_FUNCTION, RT_ACTIVATION_GELU);
       }},
      {"add",
       [](int64_t rows) -> Case {
         return row_wise(RT_OP_ADD, RT_BFLOAT16, rows).in({1024}).out({rows, 1024});
       }},
      {"cast",
       [](int64_t rows) -> Case {
         return row_wise(RT_OP_CAST, RT_BFLOAT16, rows).out_of(RT_FLOAT32, {rows, 1024});
       }},
      {"reduce",
       [](int64_t rows) -> Case {
         return row_wise(RT_OP_REDUCE, RT_BFLOAT16, rows)
             .out({rows, 1})
             .integer(RT_ATTR_AXES, 2)
             .integer(RT_ATTR_FUNCTION, RT_REDUCE_SUM);
       }},
      {"embedding",
       [](int64_t rows) -> Case {
         return Builder(RT_OP_EMBEDDING, RT_BFLOAT16, "rows")
             .in_of(RT_INT32, {rows}, Values{0, 100})
             .in({100, 1024})
             .out({rows, 1024});
       }},
      {"sgd", [](int64_t rows) -> Case {
         return row_wise(RT_OP_SGD, RT_FLOAT32, rows)
             .in({rows, 1024})
             .in({1})
             .in({1})
             .out({rows, 1024});
       }}};
  return cases;
}

std::shared_ptr<host::Plugin> plugin() {
  const std::filesystem::path built = GPU_PLUGIN;
  const char* const folder = std::getenv("RUNTIME_TEST_PLUGINS");
  return host::Plugin::load(folder == nullptr ? built : folder / built.filename(), {});
}

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
  // Reads a row of output i without its padding.
  Bytes read(size_t i, int64_t row) {
    const rt_tensor_desc& t = case_.operation.outputs[i];
    const auto* from = static_cast<const std::byte*>(outputs_[i].data()) + row * row_bytes(t);
    Bytes to(rt::sdk::element_count(t) / t.dims[0] * rt::sdk::dtype_bytes(t.dtype));
    stream_.copy(to.data(), from, to.size());
    stream_.synchronize();
    return to;
  }
  void run() {
    host::Kernel kernel = device_->create_kernel(case_.operation);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const host::Memory& m : inputs_) inputs.push_back(m.data());
    for (const host::Memory& m : outputs_) outputs.push_back(m.data());
    const auto buffer = [&](uint64_t bytes) {
      return device_->allocate(std::max<uint64_t>(bytes, 16));
    };
    const host::Memory workspace = buffer(kernel.info().workspace_bytes),
                       saved = buffer(kernel.info().saved_bytes);
    rt_launch launch{};
    launch.size = sizeof(launch);
    launch.inputs = inputs.data();
    launch.input_count = static_cast<uint32_t>(inputs.size());
    launch.outputs = outputs.data();
    launch.output_count = static_cast<uint32_t>(outputs.size());
    launch.workspace = workspace.data();
    launch.saved = saved.data();
    kernel.launch(stream_, launch);
    stream_.synchronize();
  }
  // Bytes from one row to the next.
  int64_t row_bytes(const rt_tensor_desc& t) {
    return static_cast<int64_t>(device_->layout_bytes(t)) / t.dims[0];
  }

 private:
  // Bytes of 0x3c are small numbers and no label, so labels are 0.
  void add(const rt_tensor_desc& t, std::vector<host::Memory>& to) {
    const uint64_t bytes = device_->layout_bytes(t);
    to.push_back(device_->allocate(bytes));
    stream_.fill(to.back().data(), t.dtype == RT_INT32 ? 0 : 0x3c, bytes);
  }
  std::shared_ptr<host::Device> device_;
  Case case_;
  host::Stream stream_ = device_->create_stream();
  std::vector<host::Memory> inputs_, outputs_;
};

// The places of the few rows among `rows` rows of `width` elements; place i is i modulo kSame.
std::vector<int64_t> places_of(int64_t rows, int64_t width) {
  const int64_t before = kBoundary / width / kSame * kSame;
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
    for (int64_t r = 0; r < kFew && has_rows(y); ++r) {
      const int64_t place = places[static_cast<size_t>(r)];
      EXPECT_LE(conformance::relative_error(y.dtype, large.read(i, place), small.read(i, r)),
                tolerance)
          << "output " << i << ", row " << place;
    }
  }
}

class LargeOperands : public testing::TestWithParam<Large> {};

TEST_P(LargeOperands, GiveWhatTheSameRowsGiveAlone) {
  const host::DeviceInfo found = host::list_devices(*plugin()).at(0);
  if (!found.usable()) GTEST_SKIP() << found.properties.unusable_reason;
  const auto device = host::Device::open(plugin(), 0, {});
  if (device->host_memory() || device->memory_info().free_bytes < uint64_t{40} << 30)
    GTEST_SKIP() << "needs a device with 40 GiB of free memory of its own";
  const Case few = GetParam().make(kFew);
  const int64_t width =
      std::max(few.operation.outputs.back().dims[1], few.operation.inputs[0].dims[1]);
  // The last row, which is number kFew - 1 of the few, is far behind the boundary.
  const int64_t rows = (kBoundary / width / kSame + 64) * kSame + kFew;
  const std::vector<int64_t> places = places_of(rows, width);
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

INSTANTIATE_TEST_SUITE_P(Operations, LargeOperands, testing::ValuesIn(large_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
