// Every composition gives the results of the operation that it replaces: the conformance cases of
// the operation, computed by a graph on a target that refuses it.
#include "runtime/graph/compositions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plugins/conformance/execution.h"
#include "plugins/conformance/variants.h"
#include "rt/sdk/tensor.h"
#include "runtime/exec/program.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"
#include "tests/runtime/support/devices.h"

namespace runtime::exec {
namespace {

using graph::ValueId;
using plugins::conformance::Bytes;
using plugins::conformance::Case;
using plugins::conformance::Execution;
using plugins::conformance::Values;
using plugins::host::Device;

// The device without one operation, in every form.
class Without : public DeviceTarget {
 public:
  Without(std::shared_ptr<Device> device, std::string op)
      : DeviceTarget(std::move(device), {.tune = Tune::kOff}), op_(std::move(op)) {}
  graph::Support support(const graph::Graph& graph, const graph::Node& node) override {
    if (node.op == op_) return {.reason = "it is refused here"};
    return DeviceTarget::support(graph, node);
  }

 private:
  std::string op_;
};

struct Operands {
  std::vector<ValueId> inputs, outputs;
};

// Appends the operation to the graph, with values of its own.
Operands append(graph::Graph& graph, const plugins::host::Operation& operation,
                const std::string& prefix, ValueId saved) {
  Operands result;
  const auto add = [&](const rt_tensor_desc& t, graph::ValueKind kind, const std::string& name) {
    return graph.add_value(prefix + name, kind, graph::Dims(t.dims, t.dims + t.rank), t.dtype);
  };
  for (const rt_tensor_desc& t : operation.inputs)
    result.inputs.push_back(
        add(t, graph::ValueKind::kInput, "in" + std::to_string(result.inputs.size())));
  for (const rt_tensor_desc& t : operation.outputs)
    result.outputs.push_back(
        add(t, graph::ValueKind::kOutput, "out" + std::to_string(result.outputs.size())));
  graph::Node node;
  node.op = operation.name;
  node.layer = prefix + "layer";
  node.inputs = result.inputs;
  node.outputs = result.outputs;
  node.saved = saved;
  for (const auto& a : operation.attributes) node.attributes.push_back({a.name, a.value});
  graph.nodes.push_back(std::move(node));
  return result;
}

std::vector<Bytes> data_of(const plugins::host::Operation& operation,
                           const std::vector<Values>& values) {
  std::vector<Bytes> data;
  for (size_t i = 0; i < operation.inputs.size(); ++i)
    data.push_back(plugins::conformance::make_values(operation.inputs[i], values[i]));
  return data;
}

class Composed {
 public:
  Composed(const std::shared_ptr<Device>& device, const Case& c, const std::string& refused)
      : stream_(device->create_stream()), storage_(device), arena_(device) {
    graph::Graph graph;
    ValueId saved = graph::kNone;
    if (c.forward) {
      graph::Value value;
      value.name = "saved";
      value.dtype = RT_UINT8;
      value.dims = {0};
      saved = graph.add_value(std::move(value));
      forward_ = append(graph, *c.forward, "forward.", saved);
    }
    own_ = append(graph, c.operation, "", saved);
    Without target(device, refused);
    graph::fit_to_device(graph, target);
    graph::lower_rest(graph, target);
    for (const graph::Node& node : graph.nodes) EXPECT_NE(node.op, refused);
    program_ = std::make_unique<Program>(std::move(graph), device, storage_, arena_,
                                         CompileOptions{.target = {.tune = Tune::kOff}});
  }

  std::vector<Bytes> run(const Case& c) {
    if (c.forward) upload(forward_, data_of(*c.forward, c.forward_inputs));
    upload(own_, data_of(c.operation, c.inputs));
    program_->run(stream_);
    std::vector<Bytes> results;
    for (const ValueId v : own_.outputs) {
      results.emplace_back(graph::canonical_bytes(program_->graph().value(v)));
      stream_.copy(results.back().data(), program_->address(v), results.back().size());
    }
    stream_.synchronize();
    return results;
  }

 private:
  void upload(const Operands& operands, const std::vector<Bytes>& data) {
    for (size_t i = 0; i < data.size(); ++i) {
      void* const to = program_->address(operands.inputs[i]);
      if (to != nullptr) stream_.copy(to, data[i].data(), data[i].size());
    }
    stream_.synchronize();
  }

  plugins::host::Stream stream_;
  Storage storage_;
  Arena arena_;
  Operands forward_, own_;
  std::unique_ptr<Program> program_;
};

std::vector<Bytes> expected(Device& reference, const Case& c) {
  if (!c.forward)
    return Execution(reference, c.operation, nullptr).run(data_of(c.operation, c.inputs));
  Execution forward(reference, *c.forward, nullptr);
  forward.run(data_of(*c.forward, c.forward_inputs));
  return Execution(reference, c.operation, &forward).run(data_of(c.operation, c.inputs));
}

// Returns a text that says what differs; it is empty if nothing does.
std::string difference(const std::shared_ptr<Device>& device, Device& reference, const Case& c) {
  try {
    const std::vector<Bytes> actual = Composed(device, c, c.operation.name).run(c);
    const std::vector<Bytes> wanted = expected(reference, c);
    std::string text;
    for (size_t i = 0; i < actual.size(); ++i) {
      const rt_tensor_desc& output = c.operation.outputs[i];
      const double error = plugins::conformance::relative_error(output.dtype, actual[i], wanted[i]);
      const double allowed = plugins::conformance::allowed_error(c, output, {});
      if (error <= allowed) continue;
      text += " output " + std::to_string(i) + " differs by " + std::to_string(error) +
              ", allowed are " + std::to_string(allowed);
    }
    return text;
  } catch (const std::exception& e) {
    return std::string(" ") + e.what();
  }
}

// Compositions have no post-operations and no 16-bit types, and no step has an empty tensor.
bool is_plain(const Case& c) {
  const auto is_outside = [](const rt_tensor_desc& t) {
    return rt::sdk::is_sixteen_bit(t.dtype) || std::count(t.dims, t.dims + t.rank, 0) > 0;
  };
  const auto& op = c.operation;
  return op.post_ops.empty() && std::none_of(op.inputs.begin(), op.inputs.end(), is_outside) &&
         std::none_of(op.outputs.begin(), op.outputs.end(), is_outside);
}

// The operations with conformance cases that the table composes.
std::vector<std::string> composed_operations() {
  std::vector<std::string> names = {RT_OP_TRANSPOSE,
                                    RT_OP_CONCAT,
                                    RT_OP_DOT_PRODUCT_ATTENTION,
                                    RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD,
                                    RT_OP_GATED_ACTIVATION,
                                    RT_OP_GATED_ACTIVATION_BACKWARD,
                                    RT_OP_ROTARY};
  const std::vector<std::string> covered = plugins::conformance::covered_operations();
  for (const graph::Formula& row : graph::compositions()) {
    if (std::find(covered.begin(), covered.end(), row.op) != covered.end()) names.push_back(row.op);
  }
  return names;
}

using Parameter = std::tuple<std::string, std::string>;  // device, operation

class Compositions : public testing::TestWithParam<Parameter> {};

TEST_P(Compositions, PassTheCasesOfTheOperation) {
  const auto& [backend, op] = GetParam();
  const std::shared_ptr<Device> device = test::open_device(backend);
  const std::shared_ptr<Device> reference = test::open_device("reference");
  int cases = 0;
  for (const Case& c : plugins::conformance::cases_of(op, *device)) {
    if (!is_plain(c)) continue;
    ++cases;
    EXPECT_EQ(difference(device, *reference, c), "") << c.name;
  }
  EXPECT_GT(cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Operations, Compositions,
                         testing::Combine(testing::Values("reference", "cpu"),
                                          testing::ValuesIn(composed_operations())),
                         [](const testing::TestParamInfo<Parameter>& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace runtime::exec
