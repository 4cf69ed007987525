// How fast oneDNN multiplies matrices of float32 here: the best rate over some shapes, by
// dnnl_sgemm and by the primitive matmul with operands in the layouts that it prefers. It prints
// one JSON line.
//
//   onednn_sgemm [--threads T]

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace {

using Tag = dnnl::memory::format_tag;

struct Shape {
  int64_t m, n, k;
};

constexpr Shape kShapes[] = {
    {1024, 1024, 1024}, {2048, 2048, 2048}, {256, 1024, 1024}, {2048, 1536, 384}};
constexpr int kRounds = 15;

double gflops(const Shape& shape, const std::function<void()>& multiply) {
  multiply();
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    multiply();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * static_cast<double>(shape.m * shape.n * shape.k) / spent.count());
  }
  return best;
}

double sgemm(const Shape& s) {
  std::vector<float> a(s.m * s.k, 0.5f), b(s.k * s.n, 0.25f), c(s.m * s.n);
  return gflops(s, [&] {
    dnnl::sgemm('N', 'N', s.m, s.n, s.k, 1.0f, a.data(), s.k, b.data(), s.n, 0.0f, c.data(), s.n);
  });
}

dnnl::matmul::primitive_desc describe(const Shape& s, const dnnl::engine& engine) {
  const auto matrix = [](int64_t rows, int64_t columns, Tag tag) {
    return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32, tag);
  };
  const auto a = matrix(s.m, s.k, Tag::ab), b = matrix(s.k, s.n, Tag::any),
             c = matrix(s.m, s.n, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

double matmul(const Shape& s) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto description = describe(s, engine);
  const auto filled = [&](const dnnl::memory::desc& desc) {
    dnnl::memory memory(desc, engine);
    std::memset(memory.get_data_handle(), 0, desc.get_size());
    return memory;
  };
  const dnnl::memory a = filled(description.src_desc()), b = filled(description.weights_desc()),
                     c = filled(description.dst_desc());
  const dnnl::matmul primitive(description);
  return gflops(s, [&] {
    primitive.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--threads") == 0 && std::atoi(argv[2]) > 0) {
    omp_set_num_threads(std::atoi(argv[2]));
  } else if (argc != 1) {
    std::fprintf(stderr, "usage: %s [--threads T]\n", argv[0]);
    return 2;
  }
  double best_sgemm = 0, best_matmul = 0;
  for (const Shape& shape : kShapes) {
    best_sgemm = std::max(best_sgemm, sgemm(shape));
    best_matmul = std::max(best_matmul, matmul(shape));
  }
  const dnnl_version_t* version = dnnl::version();
  std::printf("{\"library\":\"oneDNN %d.%d.%d\",\"sgemm_gflops\":%.1f,\"matmul_gflops\":%.1f}\n",
              version->major, version->minor, version->patch, best_sgemm, best_matmul);
}
