// What the bare programs share: primitives of oneDNN 2.6 executed one after another on one stream,
// their memory made once. No framework: the ceiling that `runtime bench` is compared with.
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
  bool layers = false;  // also a table of the time of each call
  bool sgemm = false;   // also the rate of dnnl_sgemm on squares of 1024
  bool plain = false;   // weights stay row-major instead of in oneDNN's own formats
};

// Exits with 2 on an unknown option and sets the number of OpenMP threads.
Arguments parse_arguments(int argc, char** argv);

dnnl::memory::desc describe(const Dims& dims, Tag tag);

class Sequence {
 public:
  Sequence() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }

  // Zeros.
  dnnl::memory allocate(const dnnl::memory::desc& desc);

  // Numbers of a uniform distribution in (-bound, bound), put into the format of `desc`; `plain`
  // is the row-major format of as many dimensions.
  dnnl::memory allocate_random(const dnnl::memory::desc& desc, Tag plain, float bound);

  // Attributes with the scratchpad in the caller's memory, as add() expects them.
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

  // Runs all calls `steps` times after a warm-up; the median of a step's wall-clock milliseconds.
  double measure(int64_t steps);

  // Runs all calls and prints the median microseconds of each to stderr.
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

// Billions of floating-point operations a second of dnnl_sgemm, best of several on 1024 x 1024.
double sgemm_gflops();

// Measures `sequence` and prints the JSON object of the bare programs; `loss` is read after it.
void report(Sequence& sequence, const Arguments& arguments, int64_t batch, const float& loss);

}  // namespace bench

#endif  // TOOLS_BENCH_SEQUENCE_H_
