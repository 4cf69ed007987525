// Compares the speed of the kernels for the batch-blocked layout [ceil(N/16)][H][W][C][16]
// (backends/cpu/batch_blocked) with oneDNN's NHWC and blocked primitives and with the processor's
// FMA peak, all in one run. Every figure is the best of the rounds. The kernels of one shape are
// timed in turn, so that a change of the clock or another busy process affects all of them.
//
//   batch_blocked_bench [threads = 1] [rounds = 9] [substring of the shape's name, or "pooled"]

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cpu/batch_blocked/convolution.h"
#include "backends/cpu/batch_blocked/matrix_unit_convolution.h"
#include "backends/cpu/batch_blocked/packed_gradient.h"
#include "backends/cpu/batch_blocked/pooled_convolution.h"
#include "backends/cpu/batch_blocked/pooled_gradient.h"
#include "backends/cpu/batch_blocked/pooling.h"
#include "backends/cpu/batch_blocked/reorder.h"
#include "backends/cpu/batch_blocked/weight_gradient.h"
#include "backends/cpu/batch_blocked/winograd.h"
#include "backends/cpu/batch_blocked/winograd_gradient.h"

namespace {

using backends::cpu::batch_blocked::Convolution;
using backends::cpu::batch_blocked::ConvShape;
using backends::cpu::batch_blocked::Direction;
using backends::cpu::batch_blocked::find_winograd;
using backends::cpu::batch_blocked::from_blocked;
using backends::cpu::batch_blocked::kBlock;
using backends::cpu::batch_blocked::MatrixUnitConvolution;
using backends::cpu::batch_blocked::PackedGradient;
using backends::cpu::batch_blocked::Pooling;
using backends::cpu::batch_blocked::PoolKind;
using backends::cpu::batch_blocked::PoolShape;
using backends::cpu::batch_blocked::Post;
using backends::cpu::batch_blocked::PostOps;
using backends::cpu::batch_blocked::sample_blocks;
using backends::cpu::batch_blocked::to_blocked;
using backends::cpu::batch_blocked::WeightGradient;
using backends::cpu::batch_blocked::Winograd;
using backends::cpu::batch_blocked::WinogradGradient;

const backends::cpu::batch_blocked::KernelTable& best_kernels() {
  return backends::cpu::batch_blocked::kernels_for(backends::cpu::widest_isa());
}

// An aligned buffer, filled with numbers around zero.
class Buffer {
 public:
  explicit Buffer(int64_t count)
      : data_(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 63) / 64 * 64)), std::free) {
    for (int64_t i = 0; i < count; ++i) data_.get()[i] = static_cast<float>(i * 7 % 13 - 6) / 8;
  }
  float* get() { return data_.get(); }

 private:
  std::unique_ptr<float, decltype(&std::free)> data_;
};

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds;
};

// For one thread, its processor time, which other processes affect only through the caches. For
// more threads, the wall-clock time.
double seconds_now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Runs all contenders in turn: one warm-up round, then `rounds` rounds.
void time_all(std::vector<Contender>& contenders, int threads, int rounds) {
  for (int round = -1; round < rounds; ++round) {
    for (Contender& c : contenders) {
      const double start = seconds_now(threads);
      c.run();
      if (round >= 0) c.seconds.push_back(seconds_now(threads) - start);
    }
  }
}

// Other processes can only add time, so the fastest round is the time that the code needs.
double best(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

constexpr int64_t kPeakRounds = 2'000'000;
constexpr int kAccumulators = 12;

// FLOP of one call of the peak loop on one thread. It has 12 independent chains, which suffices for
// a latency of 4 cycles.
__attribute__((target("avx512f"))) double fma_loop_512() {
  typedef float V __attribute__((vector_size(64)));
  V acc[kAccumulators] = {};
  V a = {}, b = {};
  asm volatile("" : "+v"(a), "+v"(b));
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kAccumulators; ++j)
      asm volatile("vfmadd231ps %1, %2, %0" : "+v"(acc[j]) : "v"(a), "v"(b));
  }
  return 2.0 * 16 * kAccumulators * kPeakRounds;
}

__attribute__((target("avx2,fma"))) double fma_loop_256() {
  typedef float V __attribute__((vector_size(32)));
  V acc[kAccumulators] = {};
  V a = {}, b = {};
  asm volatile("" : "+x"(a), "+x"(b));
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kAccumulators; ++j)
      asm volatile("vfmadd231ps %1, %2, %0" : "+x"(acc[j]) : "x"(a), "x"(b));
  }
  return 2.0 * 8 * kAccumulators * kPeakRounds;
}

void peak_loop(int threads, double* flops) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  total += __builtin_cpu_supports("avx512f") ? fma_loop_512() : fma_loop_256();
  *flops = total;
}

// oneDNN's convolutions on memory of their own, in the requested layouts.
class OneDnn {
 public:
  using Memory = dnnl::memory;
  OneDnn(const ConvShape& s, bool nhwc) : s_(s) {
    image_ = nhwc ? Memory::format_tag::nhwc : Memory::format_tag::any;
  }

  std::function<void()> forward() {
    return make(forward_desc(), [](const Forward& d, auto& args, auto memory) {
      args = {{DNNL_ARG_SRC, memory(d.src_desc())},
              {DNNL_ARG_WEIGHTS, memory(d.weights_desc())},
              {DNNL_ARG_DST, memory(d.dst_desc())}};
      return dnnl::primitive(dnnl::convolution_forward(d));
    });
  }
  std::function<void()> backward_data() {
    const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, x(), w(),
                                                     y(), strides(), pads(), pads());
    return make(dnnl::convolution_backward_data::primitive_desc(desc, engine_, forward_desc()),
                [](const auto& d, auto& args, auto memory) {
                  args = {{DNNL_ARG_DIFF_DST, memory(d.diff_dst_desc())},
                          {DNNL_ARG_WEIGHTS, memory(d.weights_desc())},
                          {DNNL_ARG_DIFF_SRC, memory(d.diff_src_desc())}};
                  return dnnl::primitive(dnnl::convolution_backward_data(d));
                });
  }
  std::function<void()> backward_weights() {
    const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, x(),
                                                        w(), b(), y(), strides(), pads(), pads());
    return make(dnnl::convolution_backward_weights::primitive_desc(desc, engine_, forward_desc()),
                [](const auto& d, auto& args, auto memory) {
                  args = {{DNNL_ARG_SRC, memory(d.src_desc())},
                          {DNNL_ARG_DIFF_DST, memory(d.diff_dst_desc())},
                          {DNNL_ARG_DIFF_WEIGHTS, memory(d.diff_weights_desc())},
                          {DNNL_ARG_DIFF_BIAS, memory(d.diff_bias_desc())}};
                  return dnnl::primitive(dnnl::convolution_backward_weights(d));
                });
  }

 private:
  using Forward = dnnl::convolution_forward::primitive_desc;
  Memory::desc desc(const Memory::dims& dims, Memory::format_tag tag) const {
    return {dims, Memory::data_type::f32, tag};
  }
  Memory::desc x() const { return desc({s_.n, s_.c, s_.h, s_.w}, image_); }
  Memory::desc y() const { return desc({s_.n, s_.o, s_.p, s_.q}, image_); }
  Memory::desc w() const { return desc({s_.o, s_.c, s_.kh, s_.kw}, Memory::format_tag::any); }
  Memory::desc b() const { return desc({s_.o}, Memory::format_tag::x); }
  Memory::dims strides() const { return {s_.stride_h, s_.stride_w}; }
  Memory::dims pads() const { return {s_.pad_top, s_.pad_left}; }
  Forward forward_desc() const {
    return Forward({dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x(),
                    w(), y(), strides(), pads(), pads()},
                   engine_);
  }
  template <typename Desc, typename Bind>
  std::function<void()> make(const Desc& desc, Bind bind) {
    std::unordered_map<int, Memory> args;
    auto memory = [this](const Memory::desc& d) {
      buffers_.emplace_back(static_cast<int64_t>(d.get_size() / 4));
      return Memory(d, engine_, buffers_.back().get());
    };
    dnnl::primitive primitive = bind(desc, args, memory);
    return [this, primitive, args]() mutable {
      primitive.execute(stream_, args);
      stream_.wait();
    };
  }

  ConvShape s_;
  Memory::format_tag image_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Buffer> buffers_;
};

struct Named {
  const char* name;
  ConvShape shape;
};

ConvShape conv(int64_t n, int64_t size, int64_t c, int64_t o, int64_t k, int64_t pad,
               int64_t stride = 1) {
  const int64_t out = (size + 2 * pad - k) / stride + 1;
  ConvShape s{n, size, size, c, o, k, k, out, out};
  s.stride_h = s.stride_w = stride;
  s.pad_top = s.pad_left = pad;
  return s;
}

// Floating-point operations without products with padding. The figures of all contenders use this
// number.
double useful_flops(const ConvShape& s) {
  double rows = 0, columns = 0;
  for (int64_t p = 0; p < s.p; ++p) {
    for (int64_t k = 0; k < s.kh; ++k) {
      const int64_t at = p * s.stride_h - s.pad_top + k;
      rows += at >= 0 && at < s.h;
    }
  }
  for (int64_t q = 0; q < s.q; ++q) {
    for (int64_t k = 0; k < s.kw; ++k) {
      const int64_t at = q * s.stride_w - s.pad_left + k;
      columns += at >= 0 && at < s.w;
    }
  }
  return 2.0 * s.n * rows * columns * s.c * s.o;
}

void report(const char* shape, const char* operation, const ConvShape& s,
            std::vector<Contender> contenders, int threads, int rounds) {
  double peak_flops = 0;
  contenders.push_back({"peak", [&] { peak_loop(threads, &peak_flops); }, {}});
  time_all(contenders, threads, rounds);
  const double peak = peak_flops / best(contenders.back().seconds);
  std::printf("%-22s %-8s", shape, operation);
  for (const Contender& c : contenders) {
    const double seconds = best(c.seconds);
    const double flops = c.name == "peak" ? peak_flops : useful_flops(s);
    std::printf("  %s %6.2f ms %5.1f GF/s %3.0f%%", c.name.c_str(), seconds * 1e3,
                flops / seconds / 1e9, 100 * flops / seconds / peak);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void bench_convolution(const Named& named, int threads, int rounds) {
  const ConvShape& s = named.shape;
  OneDnn nhwc(s, true), blocked(s, false);
  const int64_t padded = sample_blocks(s.n) * kBlock;
  Buffer x(padded * s.h * s.w * s.c), y(padded * s.p * s.q * s.o), w(s.o * s.kh * s.kw * s.c);
  const PostOps none;
  for (const Direction direction : {Direction::kForward, Direction::kBackwardData}) {
    const bool forward = direction == Direction::kForward;
    Convolution own(s, direction, threads, best_kernels());
    Buffer workspace(static_cast<int64_t>(own.workspace_bytes() / 4));
    auto run = [&] {
      forward ? own.run(x.get(), w.get(), y.get(), workspace.get(), none)
              : own.run(y.get(), w.get(), x.get(), workspace.get(), none);
    };
    std::vector<Contender> contenders = {
        {"own", run, {}},
        {"nhwc", forward ? nhwc.forward() : nhwc.backward_data(), {}},
        {"blocked", forward ? blocked.forward() : blocked.backward_data(), {}}};
    if (find_winograd(s, best_kernels())) {
      auto winograd = std::make_shared<Winograd>(s, direction, threads, best_kernels());
      auto scratch =
          std::make_shared<Buffer>(static_cast<int64_t>(winograd->workspace_bytes() / 4));
      contenders.push_back({"winograd",
                            [=, &x, &y, &w] {
                              winograd->run(forward ? x.get() : y.get(), w.get(),
                                            forward ? y.get() : x.get(), scratch->get(), none);
                            },
                            {}});
    }
    if (backends::cpu::batch_blocked::matrix_unit_kernels() != nullptr) {
      auto unit = std::make_shared<MatrixUnitConvolution>(s, direction, threads, best_kernels());
      auto scratch = std::make_shared<Buffer>(static_cast<int64_t>(unit->workspace_bytes() / 4));
      contenders.push_back({"matrix_unit",
                            [=, &x, &y, &w] {
                              unit->run(forward ? x.get() : y.get(), w.get(),
                                        forward ? y.get() : x.get(), scratch->get(), none);
                            },
                            {}});
    }
    report(named.name, forward ? "forward" : "data", s, contenders, threads, rounds);
  }
  WeightGradient own(s, threads, best_kernels());
  Buffer workspace(static_cast<int64_t>(own.workspace_bytes() / 4)), db(s.o);
  std::vector<Contender> contenders = {
      {"own", [&] { own.run(x.get(), y.get(), w.get(), db.get(), workspace.get()); }, {}},
      {"nhwc", nhwc.backward_weights(), {}},
      {"blocked", blocked.backward_weights(), {}}};
  if (find_winograd(s, best_kernels())) {
    auto winograd = std::make_shared<WinogradGradient>(s, threads, best_kernels());
    auto scratch = std::make_shared<Buffer>(static_cast<int64_t>(winograd->workspace_bytes() / 4));
    contenders.push_back({"winograd",
                          [=, &x, &y, &w, &db] {
                            winograd->run(x.get(), y.get(), w.get(), db.get(), scratch->get());
                          },
                          {}});
  }
  const auto add_packed = [&](const char* name, const auto& kernels) {
    auto packed = std::make_shared<PackedGradient>(s, threads, kernels, best_kernels());
    auto scratch = std::make_shared<Buffer>(static_cast<int64_t>(packed->workspace_bytes() / 4));
    contenders.push_back(
        {name,
         [=, &x, &y, &w, &db] { packed->run(x.get(), y.get(), w.get(), db.get(), scratch->get()); },
         {}});
  };
  namespace bb = backends::cpu::batch_blocked;
  add_packed("packed", bb::gradient_kernels_for(backends::cpu::widest_isa()));
  if (const auto* unit = bb::matrix_unit_gradient_kernels()) add_packed("matrix_unit", *unit);
  report(named.name, "weights", s, contenders, threads, rounds);
}

const Named kShapes[] = {
    {"lenet_conv1", conv(256, 28, 1, 20, 3, 0)},
    {"lenet_conv2", conv(256, 13, 20, 50, 5, 0)},
    {"cifar_3_64", conv(64, 32, 3, 64, 3, 1)},
    {"cifar_16_16", conv(64, 32, 16, 16, 3, 1)},
    {"cifar_32_32", conv(64, 16, 32, 32, 3, 1)},
    {"cifar_64_64", conv(64, 32, 64, 64, 3, 1)},
    {"cifar_128_128", conv(64, 16, 128, 128, 3, 1)},
    {"cifar_256_256", conv(64, 8, 256, 256, 3, 1)},
    {"cifar_512_512", conv(64, 4, 512, 512, 3, 1)},
    {"cifar_64_128_s2", conv(64, 32, 64, 128, 3, 1, 2)},
};

// oneDNN's average pooling in NHWC, forward or backward.
class OneDnnPool {
 public:
  OneDnnPool(const PoolShape& s, bool forward) {
    using dnnl::memory;
    const auto nhwc = memory::format_tag::nhwc;
    const memory::desc x({s.n, s.c, s.h, s.w}, memory::data_type::f32, nhwc);
    const memory::desc y({s.n, s.c, s.p, s.q}, memory::data_type::f32, nhwc);
    const memory::dims stride = {s.stride_h, s.stride_w}, kernel = {s.kernel_h, s.kernel_w};
    const memory::dims pads = {0, 0};
    const auto average = dnnl::algorithm::pooling_avg_include_padding;
    const dnnl::pooling_forward::primitive_desc desc(
        {dnnl::prop_kind::forward_training, average, x, y, stride, kernel, pads, pads}, engine_);
    const memory of_x(x, engine_), of_y(y, engine_);
    if (forward) {
      primitive_ = dnnl::pooling_forward(desc);
      args_ = {{DNNL_ARG_SRC, of_x}, {DNNL_ARG_DST, of_y}};
    } else {
      primitive_ = dnnl::pooling_backward(dnnl::pooling_backward::primitive_desc(
          {average, x, y, stride, kernel, pads, pads}, engine_, desc));
      args_ = {{DNNL_ARG_DIFF_DST, of_y}, {DNNL_ARG_DIFF_SRC, of_x}};
    }
  }
  void run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> args_;
};

void report_times(const char* name, std::vector<Contender> contenders, int threads, int rounds) {
  time_all(contenders, threads, rounds);
  std::printf("%-22s", name);
  for (const Contender& c : contenders) {
    std::printf("  %s %6.3f ms", c.name.c_str(), best(c.seconds) * 1e3);
  }
  std::printf("\n");
}

// Measures LeNet's first pooling, alone and with the gradient of the ReLU before it, and the
// reorder of its input images.
void bench_memory_bound(int threads, int rounds) {
  PoolShape s{256, 26, 26, 20, 13, 13, 2, 2};
  s.stride_h = s.stride_w = 2;
  Buffer x(s.n * s.h * s.w * s.c), dx(s.n * s.h * s.w * s.c), y(s.n * s.p * s.q * s.c);
  const Pooling pool(s, PoolKind::kAverage, threads, best_kernels());
  const PostOps none, relu{1, {{Post::kReluBackward, x.get()}}};
  OneDnnPool forward(s, true), backward(s, false);
  report_times("lenet_pool1 forward",
               {{"own", [&] { pool.forward(x.get(), y.get(), nullptr, none); }, {}},
                {"nhwc", [&] { forward.run(); }, {}}},
               threads, rounds);
  report_times("lenet_pool1 data",
               {{"own", [&] { pool.backward(y.get(), nullptr, dx.get(), none); }, {}},
                {"own with ReLU", [&] { pool.backward(y.get(), nullptr, dx.get(), relu); }, {}},
                {"nhwc without", [&] { backward.run(); }, {}}},
               threads, rounds);
  report_times("reorder 256x784",
               {{"to blocked",
                 [&] { to_blocked(x.get(), 256, 784, dx.get(), threads, best_kernels()); },
                 {}},
                {"from blocked",
                 [&] { from_blocked(dx.get(), 256, 784, x.get(), threads, best_kernels()); },
                 {}}},
               threads, rounds);
}

// Measures LeNet's first convolution with relu and its pooling: one operation after the other, and
// as one.
void bench_pooled(int threads, int rounds) {
  namespace bb = backends::cpu::batch_blocked;
  const bb::PooledShape shape{conv(256, 28, 1, 20, 3, 0), 2, 2, true, true};
  const ConvShape& s = shape.conv;
  PoolShape p{s.n, s.p, s.q, s.o, shape.rows(), shape.columns(), 2, 2};
  p.stride_h = p.stride_w = 2;
  Buffer x(s.n * s.h * s.w), w(180), b(s.o), image(s.n * s.p * s.q * s.o),
      gradient(s.n * s.p * s.q * s.o);
  Buffer y(s.n * p.p * p.q * s.o), saved(static_cast<int64_t>(shape.saved_bytes() / 4));
  auto* const passes = reinterpret_cast<uint16_t*>(saved.get());
  const Convolution convolution(s, Direction::kForward, threads, best_kernels());
  const Pooling pool(p, PoolKind::kAverage, threads, best_kernels());
  const WeightGradient weights(s, threads, best_kernels());
  const bb::PooledConvolution forward(shape, threads, best_kernels());
  const bb::PooledGradient backward(shape, threads, best_kernels());
  const PostOps none, relu{2, {{Post::kBias, b.get()}, {Post::kRelu, nullptr}}},
      gate{1, {{Post::kReluBackward, image.get()}}};
  Buffer scratch(
      static_cast<int64_t>(std::max({forward.workspace_bytes(), backward.workspace_bytes(),
                                     convolution.workspace_bytes(), weights.workspace_bytes()}) /
                           4));
  report_times("lenet_1 forward",
               {{"convolution",
                 [&] { convolution.run(x.get(), w.get(), image.get(), scratch.get(), relu); },
                 {}},
                {"pooling", [&] { pool.forward(image.get(), y.get(), nullptr, none); }, {}},
                {"in one",
                 [&] { forward.run(x.get(), w.get(), b.get(), y.get(), passes, scratch.get()); },
                 {}}},
               threads, rounds);
  report_times("lenet_1 weights",
               {{"pooling", [&] { pool.backward(y.get(), nullptr, gradient.get(), gate); }, {}},
                {"convolution",
                 [&] { weights.run(x.get(), gradient.get(), w.get(), b.get(), scratch.get()); },
                 {}},
                {"in one",
                 [&] { backward.run(x.get(), y.get(), passes, w.get(), b.get(), scratch.get()); },
                 {}}},
               threads, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  const std::string filter = argc > 3 ? argv[3] : "";
  omp_set_num_threads(threads);
  for (const Named& named : kShapes) {
    if (std::string(named.name).find(filter) != std::string::npos) {
      bench_convolution(named, threads, rounds);
    }
  }
  if (filter.empty()) bench_memory_bound(threads, rounds);
  if (filter.empty() || filter == "pooled") bench_pooled(threads, rounds);
  return 0;
}
