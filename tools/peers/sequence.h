// Code that the bare programs share: oneDNN 2.6 primitives that run one after the other on one
// stream, with memory that is allocated once. There is no framework: this is the speed that
// `runtime bench` is compared with.
#ifndef TOOLS_BENCH_SEQUENCE_H_
#define TOOLS_BENCH_SEQUENCE_H_

#include <cstdint>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#if DNNL_VERSION_MAJOR != 2
#error "The bare benchmarks are written for oneDNN 2.x (Debian 12: 2.6); configure without them"
#endif

namespace bench {

using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

struct Arguments {
  int64_t steps = 100;
  int threads = 2;
  bool layers = false;  // also print the time of each call
  bool sgemm = false;   // also print the rate of dnnl_sgemm on squares of 1024
  bool plain = false;   // keep weights row-major instead of in oneDNN's formats
};

// Parses the command line and sets the number of OpenMP threads. Exits with code 2 on an unknown
// option.
Arguments parse_arguments(int argc, char** argv);

dnnl::memory::desc describe(const Dims& dims, Tag tag);

// A sequence of calls, most of them oneDNN primitives.
class Sequence {
 public:
  Sequence() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }

  // Allocates memory that is filled with zeros.
  dnnl::memory allocate(const dnnl::memory::desc& desc);

  // Allocates memory with numbers uniform in (-bound, bound), reordered into the format of `desc`.
  // `plain` is the row-major format with the same number of dimensions.
  dnnl::memory allocate_random(const dnnl::memory::desc& desc, Tag plain, float bound);

  // Attributes for a scratchpad in the caller's memory, as add() needs them.
  static dnnl::primitive_attr attributes();

  template <typename PrimitiveDesc>
  void add(std::string name, const PrimitiveDesc& desc, const dnnl::primitive& primitive,
           std::unordered_map<int, dnnl::memory> arguments) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, allocate(desc.scratchpad_desc()));
    add(std::move(name), [this, primitive, arguments = std::move(arguments)] {
      primitive.execute(stream_, arguments);
    });
  }
  void add(std::string name, std::function<void()> call) {
    calls_.push_back({std::move(name), std::move(call), {}});
  }
  void add_reorder(const std::string& name, dnnl::memory from, dnnl::memory to);

  // Runs all calls `steps` times after a warm-up, and returns the median wall-clock time of a step
  // in milliseconds.
  double measure(int64_t steps);

  // Runs all calls and prints the median time of each, in microseconds, to stderr.
  void print_calls(int64_t steps);

 private:
  struct Call {
    std::string name;
    std::function<void()> run;
    std::vector<double> microseconds;
  };

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Call> calls_;
};

// GFLOP/s of dnnl_sgemm on 1024 x 1024 matrices, the best of several runs.
double sgemm_gflops();

// Measures `sequence` and prints the JSON object of the bare programs. `loss` is read after the
// measurement.
void report(Sequence& sequence, const Arguments& arguments, int64_t batch, const float& loss);

}  // namespace bench

#endif  // TOOLS_BENCH_SEQUENCE_H_
