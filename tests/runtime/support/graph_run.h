// Compiles a small graph for a device, sets its operands from double and reads its results as
// double.
#ifndef TESTS_RUNTIME_SUPPORT_GRAPH_RUN_H_
#define TESTS_RUNTIME_SUPPORT_GRAPH_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/build.h"
#include "tests/runtime/support/compile.h"

namespace runtime::test {

using Numbers = std::vector<double>;

// Adds a value that the caller sets or reads: kInput, kParameter, kState or kOutput.
graph::ValueId add_value(graph::Graph& graph, const std::string& name, graph::ValueKind kind,
                         graph::Dims dims, rt_dtype dtype = RT_FLOAT64);
// Copies `id` into a new output, so that it can be read after the run.
graph::ValueId add_output(graph::Graph& graph, graph::ValueId id, const std::string& name);

class GraphRun {
 public:
  // `collectives` are those of the rank, for a graph with collectives.
  GraphRun(graph::Graph graph, const std::shared_ptr<plugins::host::Device>& device,
           exec::Collectives* collectives = nullptr);
  void set(graph::ValueId id, const Numbers& numbers);  // float64, float32, int32 or int64
  Numbers get(graph::ValueId id);
  void run();
  exec::Program& program() { return *compiled_.program; }
  const std::vector<std::string>& notes() const { return compiled_.notes; }
  exec::Storage& storage() { return storage_; }

 private:
  graph::Graph graph_;  // as given; the program's graph has further values after these
  plugins::host::Stream stream_;
  exec::Storage storage_;
  exec::Arena arena_;
  Compiled compiled_;
};

// Uniform numbers in [low, high), the same on every machine.
Numbers random_numbers(size_t count, uint64_t seed, double low = -1, double high = 1);
// The norm of the difference divided by the norm of `expected`.
double relative_error(const Numbers& actual, const Numbers& expected);

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_SUPPORT_GRAPH_RUN_H_
