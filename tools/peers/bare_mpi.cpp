// Compares MPI without any framework with the communicator plugin over MPI:
//   mpirun -n 2 --bind-to none bare_mpi <plugin library>
// First it measures all-reduces alone: blocking MPI_Allreduce in the main thread, and the plugin.
// Then it measures training steps of about 10 ms of computing with one all-reduce of 1.7 MB
// (LeNet's gradients): by how much a step is longer if the all-reduce follows the computing, and if
// it overlaps with half of it. The contenders take turns; the figures are medians of rank 0.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/host/communicator.h"

namespace {

namespace host = plugins::host;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Floats = std::vector<float>;
using Contenders = std::vector<std::pair<std::string, std::function<void()>>>;

constexpr auto kLong = std::chrono::minutes(1);
constexpr int kRounds = 10;

int launcher_variable(const char* open_mpi, const char* mpich, int otherwise) {
  for (const char* name : {open_mpi, mpich}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return otherwise;
}

struct Ranks {
  std::shared_ptr<host::Communicator> communicator;
  MPI_Comm mpi = MPI_COMM_NULL;
  int rank = 0;
};

host::Work start(const Ranks& ranks, Floats& data) {
  rt_collective call = host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, data.data(), data.data(),
                                             data.size(), RT_SUM);
  call.memory_kind = RT_MEMORY_PINNED_HOST;
  return ranks.communicator->enqueue(call);
}

void all_reduce(const Ranks& ranks, Floats& data) {
  MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                ranks.mpi);
}

// Returns the median milliseconds of each contender. The ranks begin each turn together.
std::map<std::string, double> race(const Ranks& ranks, const Contenders& contenders, int repeats) {
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& [name, run] : contenders) {
      MPI_Barrier(ranks.mpi);
      for (int i = 0; i < repeats; ++i) {
        const auto begin = Clock::now();
        run();
        times[name].push_back(Seconds(Clock::now() - begin).count() * 1e3);
      }
    }
  }
  std::map<std::string, double> medians;
  for (auto& [name, values] : times) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    medians[name] = values[values.size() / 2];
  }
  return medians;
}

void compare_alone(const Ranks& ranks, std::size_t bytes, int repeats) {
  Floats data(bytes / sizeof(float), 0.0f);
  auto ms = race(ranks,
                 {{"bare", [&] { all_reduce(ranks, data); }},
                  {"plugin", [&] { start(ranks, data).wait(kLong); }}},
                 repeats);
  if (ranks.rank != 0) return;
  std::printf("all-reduce of %9zu bytes: MPI %8.3f ms, plugin %8.3f ms, ratio %.2f\n", bytes,
              ms["bare"], ms["plugin"], ms["plugin"] / ms["bare"]);
}

// Computes on data that stay in the first-level cache, so that the contenders compete only for the
// processor.
float compute(Floats& values, int64_t passes) {
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (float& value : values) value = value * 0.999f + 0.5f;
  }
  return values[0];
}

// Uses the fastest of several tries, because other processes may disturb some.
int64_t passes_of_ten_ms(const Ranks& ranks, Floats& values) {
  constexpr int64_t kTried = 2000;
  double best = 1.0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = Clock::now();
    volatile float sink = compute(values, kTried);
    static_cast<void>(sink);
    best = std::min(best, Seconds(Clock::now() - begin).count());
  }
  auto passes = static_cast<int64_t>(static_cast<double>(kTried) * 0.010 / best);
  MPI_Bcast(&passes, 1, MPI_INT64_T, 0, ranks.mpi);
  return passes;
}

void compare_steps(const Ranks& ranks) {
  Floats data(1700000 / sizeof(float), 0.0f), values(4096, 1.0f);
  const int64_t passes = passes_of_ten_ms(ranks, values), half = passes / 2;
  auto ms = race(ranks,
                 {{"compute", [&] { compute(values, passes); }},
                  {"bare", [&] { compute(values, passes), all_reduce(ranks, data); }},
                  {"after", [&] { compute(values, passes), start(ranks, data).wait(kLong); }},
                  {"beside",
                   [&] {
                     compute(values, half);
                     host::Work work = start(ranks, data);
                     compute(values, passes - half);
                     work.wait(kLong);
                   }}},
                 20);
  if (ranks.rank != 0) return;
  std::printf(
      "step of %.2f ms with an all-reduce of 1.7 MB: MPI after it +%.3f ms, plugin after it "
      "+%.3f ms, plugin beside it +%.3f ms\n",
      ms["compute"], ms["bare"] - ms["compute"], ms["after"] - ms["compute"],
      ms["beside"] - ms["compute"]);
}

void run(const char* plugin) {
  const int rank = launcher_variable("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0);
  const int size = launcher_variable("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
  Ranks ranks{.communicator = host::Communicator::create(
                  host::Plugin::load(plugin, {}),
                  {.rank = rank, .world_size = size, .prefix = "bare_mpi", .timeout = kLong}),
              .rank = rank};
  MPI_Comm_dup(MPI_COMM_WORLD, &ranks.mpi);
  for (const auto& [bytes, repeats] : {std::pair{std::size_t{4}, 100},
                                       {std::size_t{64} << 10, 100},
                                       {std::size_t{1} << 20, 50},
                                       {std::size_t{25} << 20, 5}}) {
    compare_alone(ranks, bytes, repeats);
  }
  compare_steps(ranks);
  MPI_Comm_free(&ranks.mpi);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2) return run(argv[1]), 0;
    std::fprintf(stderr, "usage: mpirun -n 2 %s <plugin library>\n", argv[0]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 2;
}
