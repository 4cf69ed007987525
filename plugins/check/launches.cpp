// Checks of plans and launches that the conformance cases, which launch one plan at a time, cannot
// see.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "plugins/check/busy.h"
#include "plugins/check/check.h"
#include "plugins/conformance/conformance.h"
#include "plugins/conformance/execution.h"
#include "plugins/conformance/values.h"
#include "plugins/host/error.h"
#include "rt/operations.h"
#include "rt/sdk/definitions.h"
#include "rt/sdk/tensor.h"

namespace plugins::check {

namespace {

using namespace std::chrono_literals;
using conformance::Bytes;
using conformance::Case;

constexpr int kThreads = 4;

// What one launch needs, in memory of the device.
class Operands {
 public:
  Operands(const std::shared_ptr<host::Device>& device, const Case& c, const host::Kernel& kernel,
           uint64_t seed)
      : stream_(device->create_stream()) {
    for (size_t i = 0; i < c.operation.inputs.size(); ++i) {
      conformance::Values values = c.inputs[i];
      if (values.special_every == 0) values.seed += 100 * seed;
      sources_.push_back(make_values(c.operation.inputs[i], values));
      inputs_.push_back(allocate(*device, sources_.back().size()));
      input_addresses_.push_back(inputs_.back().data());
      if (!sources_.back().empty())
        stream_.copy(inputs_.back().data(), sources_.back().data(), sources_.back().size());
    }
    for (const rt_tensor_desc& output : c.operation.outputs) {
      const uint64_t bytes = device->layout_bytes(output);
      outputs_.push_back(allocate(*device, bytes));
      output_addresses_.push_back(outputs_.back().data());
      bytes_.push_back(bytes);
      stream_.fill(outputs_.back().data(), 0, outputs_.back().bytes());
    }
    workspace_ = allocate(*device, kernel.info().workspace_bytes);
    saved_ = allocate(*device, kernel.info().saved_bytes);
    stream_.synchronize();
    launch_.size = sizeof(launch_);
    launch_.inputs = input_addresses_.data();
    launch_.input_count = static_cast<uint32_t>(input_addresses_.size());
    launch_.outputs = output_addresses_.data();
    launch_.output_count = static_cast<uint32_t>(output_addresses_.size());
    launch_.workspace = kernel.info().workspace_bytes > 0 ? workspace_.data() : nullptr;
    launch_.saved = kernel.info().saved_bytes > 0 ? saved_.data() : nullptr;
  }

  host::Stream& stream() { return stream_; }
  const rt_launch& launch() const { return launch_; }

  std::vector<Bytes> results() {
    std::vector<Bytes> results;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      results.emplace_back(bytes_[i]);
      if (bytes_[i] > 0) stream_.copy(results.back().data(), outputs_[i].data(), bytes_[i]);
    }
    stream_.synchronize();
    return results;
  }

 private:
  static host::Memory allocate(host::Device& device, uint64_t bytes) {
    return device.allocate(std::max<uint64_t>(bytes, 1));
  }

  std::vector<Bytes> sources_;
  std::vector<host::Memory> inputs_, outputs_;
  std::vector<uint64_t> bytes_;
  std::vector<const void*> input_addresses_;
  std::vector<void*> output_addresses_;
  host::Memory workspace_, saved_;
  rt_launch launch_{};
  host::Stream stream_;  // last: destroyed first, which waits for its work
};

// The number of elements of all inputs.
int64_t input_elements(const Case& c) {
  int64_t elements = 0;
  for (const rt_tensor_desc& input : c.operation.inputs) elements += rt::sdk::element_count(input);
  return elements;
}

// Whether each buffer of a launch is one that the device gives.
bool fits(host::Device& device, const Case& c) {
  if (device.largest_buffer() == UINT64_MAX) return true;
  const auto is_small = [&](const rt_tensor_desc& t) {
    return device.layout_bytes(t) <= device.largest_buffer();
  };
  const host::Operation& op = c.operation;
  if (!std::all_of(op.inputs.begin(), op.inputs.end(), is_small) ||
      !std::all_of(op.outputs.begin(), op.outputs.end(), is_small))
    return false;
  const host::Kernel kernel = device.create_kernel(op);
  return std::max(kernel.info().workspace_bytes, kernel.info().saved_bytes) <=
         device.largest_buffer();
}

// Cases that the device takes: of each operation the largest one without post-operations that needs
// no forward operation, in the first type that it computes in.
std::vector<Case> taken_cases(Context& context) {
  context.kernel_api();
  const auto device = context.device();
  std::vector<Case> taken;
  for (const std::string& operation : conformance::covered_operations()) {
    std::optional<Case> best;
    for (Case& c : conformance::cases_of(operation, *device)) {
      if (c.forward || !c.operation.post_ops.empty()) continue;
      if (best && input_elements(c) <= input_elements(*best)) continue;
      if (device->query(c.operation).level != RT_SUPPORT_REFUSED && fits(*device, c))
        best = std::move(c);
    }
    if (best) taken.push_back(std::move(*best));
  }
  if (taken.empty()) throw Skip("the device takes none of the operations");
  return taken;
}

// Launches one plan from several threads, each with a stream and operands of its own.
void launch_in_threads(const std::shared_ptr<host::Device>& device, const Case& c) {
  constexpr int kLaunches = 20;
  host::Kernel kernel = device->create_kernel(c.operation);
  const bool same_bits = (kernel.info().flags & RT_PLAN_DETERMINISTIC) != 0;
  const double allowed = std::max(device->query(c.operation).tolerance, 1e-3);
  std::vector<std::unique_ptr<Operands>> operands;
  std::vector<std::vector<Bytes>> expected;
  for (int i = 0; i < kThreads; ++i) {
    operands.push_back(std::make_unique<Operands>(device, c, kernel, static_cast<uint64_t>(i)));
    kernel.launch(operands.back()->stream(), operands.back()->launch());
    expected.push_back(operands.back()->results());
  }
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      try {
        for (int n = 0; n < kLaunches; ++n) {
          kernel.launch(operands[i]->stream(), operands[i]->launch());
          const std::vector<Bytes> results = operands[i]->results();
          for (size_t j = 0; j < results.size(); ++j) {
            const double error = conformance::relative_error(c.operation.outputs[j].dtype,
                                                             results[j], expected[i][j]);
            require(same_bits ? results[j] == expected[i][j] : error <= allowed,
                    fmt::format("{}: one plan was launched on {} streams at the same time, and "
                                "output {} differs by {:g} from that of a launch alone; a plan may "
                                "keep no data of a launch",
                                c.name, kThreads, j, error));
          }
        }
      } catch (const std::exception& error) {
        failures[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) require(failure.empty(), failure);
}

// Operations that write their own inputs give other results the second time.
bool repeats(const Case& c) {
  const auto& outputs = rt::sdk::find_definition(c.operation.name)->outputs;
  return std::none_of(outputs.begin(), outputs.end(), [](const auto& output) {
    return output.is(rt::sdk::OperandDefinition::kInPlace);
  });
}

std::string launches_in_threads(Context& context) {
  int plans = 0;
  for (const Case& c : taken_cases(context)) {
    if (!repeats(c)) continue;
    launch_in_threads(context.device(), c);
    ++plans;
  }
  return fmt::format("{} plans on {} streams", plans, kThreads);
}

std::string creates_in_threads(Context& context) {
  const std::vector<Case> cases = taken_cases(context);
  const auto device = context.device();
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  for (std::string& failure : failures) {
    threads.emplace_back([&] {
      try {
        for (const Case& c : cases) device->create_kernel(c.operation);
      } catch (const std::exception& error) {
        failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) require(failure.empty(), failure);
  return "";
}

std::string device_gives_everything_back(Context& context) {
  const std::vector<Case> cases = taken_cases(context);
  const auto device = context.device();
  const auto rounds = [&](int count) {
    for (int n = 0; n < count; ++n) {
      for (const Case& c : cases) {
        host::Kernel kernel = device->create_kernel(c.operation);
        host::Event event = device->create_event();
        host::Stream stream = device->create_stream();
        event.record(stream);
        stream.synchronize();
      }
    }
  };
  rounds(3);  // caches fill
  const int64_t before = heap_bytes();
  constexpr int kRounds = 10;
  rounds(kRounds);
  const int64_t each = (heap_bytes() - before) / (kRounds * static_cast<int64_t>(cases.size()));
  require(each < 64,
          fmt::format("each plan, event and stream that was made and destroyed leaves {} "
                      "bytes of the host's memory behind",
                      each));
  return "";
}

std::string launches_without_leaving_memory(Context& context) {
  const std::vector<Case> cases = taken_cases(context);
  const auto device = context.device();
  for (const Case& c : cases) {
    if (!repeats(c)) continue;
    host::Kernel kernel = device->create_kernel(c.operation);
    Operands operands(device, c, kernel, 0);
    const auto launches = [&](int count) {
      for (int n = 0; n < count; ++n) kernel.launch(operands.stream(), operands.launch());
      operands.stream().synchronize();
    };
    launches(20);
    const int64_t before = heap_bytes();
    launches(200);
    const int64_t each = (heap_bytes() - before) / 200;
    require(each < 16, fmt::format("{}: each launch leaves {} bytes of the host's memory behind; "
                                   "launch allocates nothing",
                                   c.name, each));
  }
  return "";
}

std::string creates_what_it_says(Context& context) {
  const auto device = context.device();
  int made = 0;
  for (const Case& c : taken_cases(context)) {
    const host::Support support = device->query(c.operation);
    require(support.post_ops_fused <= c.operation.post_ops.size(),
            fmt::format("{}: query says that {} post-operations are fused, and {} were asked for",
                        c.name, support.post_ops_fused, c.operation.post_ops.size()));
    require(support.tolerance >= 0 && support.tolerance <= 1,
            fmt::format("{}: query claims a tolerance of {:g}; expected the relative error to the "
                        "reference",
                        c.name, support.tolerance));
    device->create_kernel(c.operation);
    for (const rt_candidate& candidate : support.candidates) {
      require(candidate.algorithm != 0,
              c.name + ": a candidate has the algorithm 0, which means that the plugin chooses");
    }
    ++made;
  }
  return fmt::format("{} operations", made);
}

std::string refuses_unknown_operations(Context& context) {
  context.kernel_api();
  const auto device = context.device();
  host::Operation operation;
  operation.name = "org.example.unknown";
  operation.inputs = operation.outputs = {host::make_tensor_desc(RT_FLOAT32, {4})};
  const host::Support support = device->query(operation);
  require(
      support.level == RT_SUPPORT_REFUSED && !support.reason.empty(),
      "query of an operation of an unknown name; expected a refusal with a reason, because later "
      "releases have operations that this plugin does not know");
  try {
    device->create_kernel(operation);
  } catch (const host::Error& error) {
    require(error.code() != RT_ERROR_INTERNAL,
            std::string("create of an operation of an unknown name: ") + error.what());
    return "";
  }
  throw Fault("create made a plan for an operation of an unknown name");
}

std::string refuses_bad_shapes(Context& context) {
  context.kernel_api();
  const auto device = context.device();
  host::Operation operation;
  operation.name = RT_OP_ADD;
  operation.inputs = {host::make_tensor_desc(RT_FLOAT32, {4, 3}),
                      host::make_tensor_desc(RT_FLOAT32, {5, 3})};
  operation.outputs = {host::make_tensor_desc(RT_FLOAT32, {4, 3})};
  try {
    if (device->query(operation).level == RT_SUPPORT_REFUSED) return "refused by query";
    device->create_kernel(operation);
  } catch (const host::Error&) {
    return "an error";
  }
  throw Fault(
      "add of [4, 3] and [5, 3], which do not fit: a plan was made; expected a refusal or "
      "RT_ERROR_INVALID_ARGUMENT");
}

}  // namespace

void add_launch_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"plans", name, body});
  };
  add("are made where query says so", creates_what_it_says);
  add("of operations of unknown names are refused", refuses_unknown_operations);
  add("of shapes that do not fit are refused", refuses_bad_shapes);
  add("are made by several threads at the same time", creates_in_threads);
  add("run on several streams at the same time", launches_in_threads);
  add("leave no memory behind when they are destroyed", device_gives_everything_back);
  add("leave no memory behind when they run", launches_without_leaving_memory);
}

}  // namespace plugins::check
