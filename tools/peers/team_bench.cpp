// Measures how long a region of the cpu plugin's team takes that does nothing, beside one of
// libgomp, for 2, 4, 8... threads: the least time that an operation takes beyond its work.
//
//   build/bin/team_bench [largest number of threads]
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "backends/cpu/parallel.h"

namespace {

using backends::cpu::Team;
using Clock = std::chrono::steady_clock;

// Median microseconds of one call, over 201 series of 50; `pause` of time passes before each call.
template <typename Call>
double median_us(std::chrono::microseconds pause, Call call) {
  constexpr int kSeries = 201, kCalls = 50;
  std::vector<double> times;
  for (int i = 0; i < (pause.count() > 0 ? kSeries / 4 : kSeries); ++i) {
    double us = 0;
    for (int j = 0; j < kCalls; ++j) {
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      const auto begin = Clock::now();
      call();
      us += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    }
    times.push_back(us / kCalls);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

void measure(int threads) {
  Team team(threads);
  const Team::Use use(team);
  const auto parts = [&] { backends::cpu::run_parts(threads, [](int) {}); };
  const auto together = [&] {
    team.run_together(
        threads, [](void*) { Team::meet(); }, nullptr);
  };
  const auto libgomp = [&] {
#pragma omp parallel num_threads(threads)
    {
#pragma omp barrier
    }
  };
  using std::chrono::microseconds;
  std::printf("%7d %12.2f %12.2f %12.2f %16.2f %16.2f\n", threads,
              median_us(microseconds(0), parts), median_us(microseconds(0), together),
              median_us(microseconds(0), libgomp), median_us(microseconds(2000), parts),
              median_us(microseconds(2000), libgomp));
}

}  // namespace

int main(int count, char** arguments) {
  const int most = count > 1 ? std::atoi(arguments[1])
                             : static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
  std::printf(
      "microseconds  independent  one barrier      libgomp    independent,         libgomp,\n");
  std::printf(
      "threads             parts   in the team  with barrier   after 2 ms idle  after 2 ms idle\n");
  for (int threads = 2; threads <= most; threads *= 2) measure(threads);
  return 0;
}
