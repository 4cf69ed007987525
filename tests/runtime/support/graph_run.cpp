// Runs a graph with given numbers on a device, and reads the results as doubles.
#include "tests/runtime/support/graph_run.h"

#include <cmath>
#include <cstring>
#include <random>

namespace runtime::test {

namespace {

template <typename T>
std::vector<std::byte> to_bytes(const Numbers& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const T x = static_cast<T>(numbers[i]);
    std::memcpy(&bytes[i * sizeof(T)], &x, sizeof(T));
  }
  return bytes;
}

template <typename T>
Numbers from_bytes(const std::vector<std::byte>& bytes) {
  Numbers numbers(bytes.size() / sizeof(T));
  for (size_t i = 0; i < numbers.size(); ++i) {
    T x;
    std::memcpy(&x, &bytes[i * sizeof(T)], sizeof(T));
    numbers[i] = static_cast<double>(x);
  }
  return numbers;
}

}  // namespace

graph::ValueId add_value(graph::Graph& graph, const std::string& name, graph::ValueKind kind,
                         graph::Dims dims, rt_dtype dtype) {
  graph::Value value;
  value.name = name;
  value.kind = kind;
  value.dtype = dtype;
  value.dims = std::move(dims);
  return graph.add_value(std::move(value));
}

graph::ValueId add_output(graph::Graph& graph, graph::ValueId id, const std::string& name) {
  const graph::Value& from = graph.value(id);
  const graph::ValueId out =
      add_value(graph, name, graph::ValueKind::kOutput, from.dims, from.dtype);
  graph::Build build(graph);
  build.layer = name;
  build.phase = graph::Phase::kBackward;
  build.node_into(RT_OP_COPY, {id}, {out});
  return out;
}

GraphRun::GraphRun(graph::Graph graph, const std::shared_ptr<plugins::host::Device>& device,
                   exec::Collectives* collectives)
    : graph_(std::move(graph)),
      stream_(device->create_stream()),
      storage_(device),
      arena_(device),
      compiled_(
          compile(graph_, device, storage_, arena_, {{.tune = exec::Tune::kOff}, collectives})) {}

void GraphRun::set(graph::ValueId id, const Numbers& numbers) {
  const rt_dtype dtype = graph_.value(id).dtype;
  const std::vector<std::byte> bytes = dtype == RT_FLOAT64   ? to_bytes<double>(numbers)
                                       : dtype == RT_FLOAT32 ? to_bytes<float>(numbers)
                                       : dtype == RT_INT32   ? to_bytes<int32_t>(numbers)
                                                             : to_bytes<int64_t>(numbers);
  if (bytes.size() != graph::canonical_bytes(graph_.value(id)))
    throw std::invalid_argument(graph_.value(id).name + ": wrong number of numbers");
  void* address = compiled_.program->address(id);
  if (address == nullptr) return;  // no operation reads the value
  stream_.copy(address, bytes.data(), bytes.size());
  stream_.synchronize();
}

Numbers GraphRun::get(graph::ValueId id) {
  const rt_dtype dtype = graph_.value(id).dtype;
  std::vector<std::byte> bytes(graph::canonical_bytes(graph_.value(id)));
  stream_.copy(bytes.data(), compiled_.program->address(id), bytes.size());
  stream_.synchronize();
  return dtype == RT_FLOAT64   ? from_bytes<double>(bytes)
         : dtype == RT_FLOAT32 ? from_bytes<float>(bytes)
         : dtype == RT_INT32   ? from_bytes<int32_t>(bytes)
                               : from_bytes<int64_t>(bytes);
}

void GraphRun::run() {
  compiled_.program->run(stream_);
  stream_.synchronize();
}

Numbers random_numbers(size_t count, uint64_t seed, double low, double high) {
  std::mt19937_64 random(seed);
  Numbers numbers(count);
  for (double& x : numbers)
    x = low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  return numbers;
}

double relative_error(const Numbers& actual, const Numbers& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (norm == 0) return std::sqrt(difference);
  return std::sqrt(difference / norm);
}

}  // namespace runtime::test
