// Runs oneDNN primitives in a sequence, times them, and parses the arguments of the bare programs.
#include "tools/peers/sequence.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The number of warm-up steps, the same as in `runtime bench`.
constexpr int kWarmUp = 5;

[[noreturn]] void refuse(const char* program, const char* argument) {
  std::fprintf(stderr,
               "%s: '%s' is not understood here\nusage: %s [--steps N] [--threads T] [--layers] "
               "[--sgemm] [--plain-weights]\n",
               program, argument, program);
  std::exit(2);
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const long number = i + 1 < argc ? std::atol(argv[i + 1]) : 0;
    if (name == "--layers") {
      result.layers = true;
    } else if (name == "--sgemm") {
      result.sgemm = true;
    } else if (name == "--plain-weights") {
      result.plain = true;
    } else if (name == "--steps" && number > 0) {
      result.steps = number, ++i;
    } else if (name == "--threads" && number > 0) {
      result.threads = static_cast<int>(number), ++i;
    } else {
      refuse(argv[0], argv[i]);
    }
  }
  omp_set_num_threads(result.threads);
  return result;
}

dnnl::memory::desc describe(const Dims& dims, Tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

dnnl::memory Sequence::allocate(const dnnl::memory::desc& desc) {
  dnnl::memory result(desc, engine_);
  if (desc.get_size() > 0) std::memset(result.get_data_handle(), 0, desc.get_size());
  return result;
}

dnnl::memory Sequence::allocate_random(const dnnl::memory::desc& desc, Tag plain, float bound) {
  dnnl::memory source(describe(desc.dims(), plain), engine_);
  auto* values = static_cast<float*>(source.get_data_handle());
  std::mt19937 generator(42);
  std::uniform_real_distribution<float> uniform(-bound, bound);
  std::generate_n(values, source.get_desc().get_size() / sizeof(float),
                  [&] { return uniform(generator); });
  dnnl::memory result = allocate(desc);
  dnnl::reorder(source, result).execute(stream_, source, result);
  stream_.wait();
  return result;
}

dnnl::primitive_attr Sequence::attributes() {
  dnnl::primitive_attr result;
  result.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return result;
}

void Sequence::add_reorder(const std::string& name, dnnl::memory from, dnnl::memory to) {
  const dnnl::reorder::primitive_desc desc(from, to, attributes());
  add(name, desc, dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

double Sequence::measure(int64_t steps) {
  std::vector<double> times;
  for (int64_t step = 0; step < steps + kWarmUp; ++step) {
    const auto begin = Clock::now();
    for (const Call& call : calls_) call.run();
    stream_.wait();
    if (step >= kWarmUp) times.push_back(microseconds_since(begin) / 1e3);
  }
  return median(std::move(times));
}

void Sequence::print_calls(int64_t steps) {
  for (int64_t step = 0; step < steps + kWarmUp; ++step) {
    for (Call& call : calls_) {
      const auto begin = Clock::now();
      call.run();
      stream_.wait();
      if (step >= kWarmUp) call.microseconds.push_back(microseconds_since(begin));
    }
  }
  double sum = 0;
  for (const Call& call : calls_) {
    sum += median(call.microseconds);
    std::fprintf(stderr, "%-40s %10.1f us\n", call.name.c_str(), median(call.microseconds));
  }
  std::fprintf(stderr, "%-40s %10.1f us\n", "sum", sum);
}

double sgemm_gflops() {
  constexpr int64_t kSize = 1024;
  constexpr int kRounds = 15;
  std::vector<float> a(kSize * kSize, 0.5f), b(kSize * kSize, 0.25f), c(kSize * kSize);
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    dnnl::sgemm('N', 'N', kSize, kSize, kSize, 1.0f, a.data(), kSize, b.data(), kSize, 0.0f,
                c.data(), kSize);
    best = std::min(best, microseconds_since(begin));
  }
  return 2.0 * kSize * kSize * kSize / best / 1e3;
}

void report(Sequence& sequence, const Arguments& arguments, int64_t batch, const float& loss) {
  const double ms = sequence.measure(arguments.steps);
  std::printf("{\"step_ms_median\":%.4f,\"samples_per_second\":%.1f,\"steps\":%lld,\"loss\":%.5f",
              ms, static_cast<double>(batch) / ms * 1e3, static_cast<long long>(arguments.steps),
              static_cast<double>(loss));
  if (arguments.sgemm) std::printf(",\"sgemm_gflops\":%.1f", sgemm_gflops());
  std::printf("}\n");
  if (arguments.layers) sequence.print_calls(arguments.steps);
}

}  // namespace bench
