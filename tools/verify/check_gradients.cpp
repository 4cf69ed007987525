// Compares each gradient of an operation with central differences in float64.
#include "tools/verify/check_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "runtime/exec/device_target.h"
#include "runtime/exec/program.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/lower.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/graph/signature.h"
#include "runtime/model/network.h"
#include "tools/verify/element.h"

namespace runtime::verify {

namespace {

using graph::Dims;
using graph::ValueId;
using graph::ValueKind;
using Numbers = std::vector<double>;

constexpr int64_t kSamples = 2;
constexpr size_t kMostElementsChecked = 64;
constexpr double kStep = 1e-5;

// One operation with operands of its own: the sum of its output times random weights, and the
// gradients of that sum.
class OneOperation {
 public:
  OneOperation(const model::Network& network, const graph::Node& node,
               std::shared_ptr<plugins::host::Device> device)
      : device_(std::move(device)),
        storage_(device_),
        arena_(device_),
        stream_(device_->create_stream()) {
    graph_.operations = network.graph.operations;
    build_.layer = node.layer;
    for (ValueId v : node.inputs)
      operands_.push_back(graph_.add_value("operand" + std::to_string(operands_.size()),
                                           ValueKind::kParameter, Dims(network.graph.value(v).dims),
                                           RT_FLOAT64));
    const ValueId y = graph::add_open_node(build_, node.op, operands_, node.attributes);
    const int64_t count = graph::element_count(graph_.value(y).dims);
    weights_ = graph_.add_value("weights", ValueKind::kState, {1, count}, RT_FLOAT64);
    const ValueId sum =
        graph_.reshape(build_.reduce(build_.multiply(graph_.reshape(y, {1, count}), weights_),
                                     RT_REDUCE_SUM, 0b10),
                       {1});
    differentiate(sum);
    sum_ = output(sum, "sum");
    compile();
  }

  size_t operands() const { return operands_.size(); }
  const Dims& dims(size_t operand) const { return graph_.value(operands_[operand]).dims; }

  void set_random() {
    std::mt19937_64 random(operands_.size());
    std::uniform_real_distribution<double> numbers(-1, 1), weights(0.1, 1);
    for (ValueId v : operands_) values_.push_back(draw(v, random, numbers));
    write(weights_, draw(weights_, random, weights));
    for (size_t i = 0; i < operands_.size(); ++i) write(operands_[i], values_[i]);
  }

  // With the operands as set_random() has set them.
  Numbers gradient(size_t operand) {
    run();
    return gradients_.contains(operand) ? read(gradients_.at(operand))
                                        : Numbers(values_[operand].size(), 0);
  }

  double difference(size_t operand, size_t element) {
    Numbers& x = values_[operand];
    const double at = x[element];
    double sums[2];
    for (const int side : {0, 1}) {
      x[element] = at + (side == 0 ? kStep : -kStep);
      write(operands_[operand], x);
      run();
      sums[side] = read(sum_)[0];
    }
    x[element] = at;
    write(operands_[operand], x);
    return (sums[0] - sums[1]) / (2 * kStep);
  }

 private:
  ValueId output(ValueId from, const std::string& name) {
    const ValueId out =
        graph_.add_value(name, ValueKind::kOutput, Dims(graph_.value(from).dims), RT_FLOAT64);
    build_.phase = graph::Phase::kBackward;
    build_.node_into(RT_OP_COPY, {from}, {out});
    return out;
  }

  void differentiate(ValueId sum) {
    one_ = graph_.add_value("one", ValueKind::kState, {1}, RT_FLOAT64);
    const auto found = graph::differentiate(graph_, sum, one_, operands_);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto gradient = found.find(operands_[i]);
      if (gradient != found.end())
        gradients_[i] = output(gradient->second, "gradient" + std::to_string(i));
    }
  }

  void compile() {
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    exec::DeviceTarget target(device_, options.target);
    graph::fit_to_device(graph_, target);
    graph::lower_rest(graph_, target);
    program_ = std::make_unique<exec::Program>(graph_, device_, storage_, arena_, options);
    write(one_, {1});
  }

  template <typename Distribution>
  Numbers draw(ValueId v, std::mt19937_64& random, Distribution& distribution) {
    Numbers numbers(static_cast<size_t>(graph::element_count(graph_.value(v).dims)));
    for (double& x : numbers) x = distribution(random);
    return numbers;
  }

  void run() {
    program_->run(stream_);
    stream_.synchronize();
  }
  void write(ValueId v, const Numbers& numbers) {
    void* const address = program_->address(v);
    if (address == nullptr) return;  // no operation reads it
    stream_.copy(address, numbers.data(), numbers.size() * sizeof(double));
    stream_.synchronize();
  }
  Numbers read(ValueId v) {
    Numbers numbers(static_cast<size_t>(graph::element_count(graph_.value(v).dims)));
    stream_.copy(numbers.data(), program_->address(v), numbers.size() * sizeof(double));
    stream_.synchronize();
    return numbers;
  }

  std::shared_ptr<plugins::host::Device> device_;
  exec::Storage storage_;
  exec::Arena arena_;
  graph::Graph graph_;
  graph::Build build_{graph_};
  std::vector<ValueId> operands_;
  std::map<size_t, ValueId> gradients_;  // outputs, by operand
  ValueId weights_ = graph::kNone, one_ = graph::kNone, sum_ = graph::kNone;
  std::vector<Numbers> values_;
  std::unique_ptr<exec::Program> program_;
  plugins::host::Stream stream_;  // last: destroyed first, which waits for its work
};

// All elements, or as many as kMostElementsChecked that are spread at random.
std::vector<size_t> elements_of(size_t count) {
  std::vector<size_t> all(count), some;
  std::iota(all.begin(), all.end(), size_t{0});
  std::mt19937_64 random(count);
  std::sample(all.begin(), all.end(), std::back_inserter(some), kMostElementsChecked, random);
  return some;
}

void compare(OneOperation& operation, size_t operand, GradientCheck& check) {
  const Numbers gradient = operation.gradient(operand);
  double squares = 0, norm = 0, worst = -1;
  for (const size_t element : elements_of(gradient.size())) {
    const double difference = operation.difference(operand, element);
    const double error = std::abs(gradient[element] - difference);
    squares += error * error;
    norm += difference * difference;
    if (error <= worst) continue;
    worst = std::isnan(error) ? INFINITY : error;
    check.index = index_of(element, operation.dims(operand));
    check.gradient = gradient[element];
    check.difference = difference;
  }
  check.error = norm == 0 ? std::sqrt(squares) : std::sqrt(squares / norm);
}

}  // namespace

std::vector<GradientCheck> check_gradients(const model::Model& model,
                                           const std::shared_ptr<plugins::host::Device>& device) {
  const model::Network network =
      model::build_network(model, {.batch = kSamples, .dtype = RT_FLOAT64});
  std::vector<GradientCheck> checks;
  for (const graph::Node& node : network.graph.nodes) {
    if (!graph::is_open(node.op)) continue;
    OneOperation operation(network, node, device);
    operation.set_random();
    const auto names =
        graph::operand_names(network.graph.operations->find(node.op)->forward).inputs;
    for (size_t i = 0; i < operation.operands(); ++i) {
      GradientCheck& check = checks.emplace_back();
      check.layer = node.layer;
      check.operation = node.op;
      check.operand = names.at(i);
      compare(operation, i, check);
    }
  }
  return checks;
}

}  // namespace runtime::verify
