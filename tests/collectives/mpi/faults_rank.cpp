// mpi_faults_rank <plugin library> <scene>: one rank of a scene with a fault or another unusual
// situation. faults_test.cpp reads its standard output.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "plugins/conformance/communicator.h"
#include "tests/collectives/support/rank.h"

namespace {

using namespace std::chrono_literals;
using collectives::testing::RankPlace;
namespace host = plugins::host;
using Communicator = std::shared_ptr<host::Communicator>;

constexpr auto kLong = 60s;

// Writes one line with one write, so that lines of several ranks do not mix.
void say(const RankPlace& place, const std::string& text) {
  const std::string line = "rank " + std::to_string(place.rank) + ": " + text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

Communicator join(const RankPlace& place, const char* plugin, const std::string& prefix,
                  std::chrono::nanoseconds timeout) {
  return host::Communicator::create(
      host::Plugin::load(plugin, collectives::testing::file_store(place.store)),
      {.rank = place.rank, .world_size = place.size, .prefix = prefix, .timeout = timeout});
}

host::Work start(const Communicator& communicator, int32_t kind, std::vector<float>& data,
                 int32_t peer = -1) {
  rt_collective call = host::make_collective(kind, RT_FLOAT32, data.data(), data.data(),
                                             data.size(), kind == RT_ALL_REDUCE ? RT_SUM : 0);
  call.peer = peer;
  call.memory_kind = RT_MEMORY_PINNED_HOST;
  return communicator->enqueue(call);
}

void barrier(const Communicator& communicator, std::chrono::nanoseconds timeout = kLong) {
  std::vector<float> nothing;
  start(communicator, RT_BARRIER, nothing).wait(timeout);
}

void killed(const RankPlace& place, const Communicator& communicator) {
  barrier(communicator);
  if (place.rank == 1) ::raise(SIGKILL);
  barrier(communicator);
}

void stopped(const RankPlace& place, const Communicator& communicator) {
  barrier(communicator);
  if (place.rank == 1) ::raise(SIGSTOP);
  barrier(communicator, 300ms);
}

// Rank 1 stops (SIGSTOP) while rank 0 is in a blocking call, which then hangs inside MPI.
void stopped_inside(const RankPlace& place, const Communicator& communicator) {
  std::vector<float> data(64 << 20, 1.0f);
  if (place.rank == 1) {
    host::Work work = start(communicator, RT_ALL_REDUCE, data);
    std::this_thread::sleep_for(30ms);
    ::raise(SIGSTOP);
  }
  start(communicator, RT_ALL_REDUCE, data).wait(1s);
  throw host::Error(RT_ERROR_TIMEOUT, "the all-reduce was faster than the stop");
}

// A receive that waits for its message delays neither collectives nor other messages.
void unmatched_receive(const RankPlace& place, const Communicator& communicator) {
  const int32_t other = 1 - place.rank;
  std::vector<float> late(3, 0.0f), sent(3, 7.0f), sum(5, 1.0f);
  host::Work receive;
  if (place.rank == 0) receive = start(communicator, RT_RECEIVE, late, other);
  for (int i = 0; i < 3; ++i) start(communicator, RT_ALL_REDUCE, sum).wait(kLong);
  barrier(communicator);
  if (place.rank == 0 && receive.poll()) say(place, "received what was not sent");
  if (place.rank == 1) start(communicator, RT_SEND, sent, other).wait(kLong);
  if (place.rank == 0) receive.wait(kLong);
  if (place.rank == 0) say(place, "got " + std::to_string(late[2]) + " " + std::to_string(sum[4]));
}

// Rank 1 sends `sent` elements, rank 0 expects `wanted`. The communicator can be used afterwards.
void mismatch(const RankPlace& place, const Communicator& communicator, std::size_t sent,
              std::size_t wanted) {
  std::vector<float> data(place.rank == 1 ? sent : wanted, 1.0f), sum(5, 1.0f);
  try {
    start(communicator, place.rank == 1 ? RT_SEND : RT_RECEIVE, data, 1 - place.rank).wait(kLong);
  } catch (const host::Error& error) {
    say(place, error.what());
  }
  start(communicator, RT_ALL_REDUCE, sum).wait(kLong);
  if (place.rank == 0) say(place, "goes on with " + std::to_string(sum[0]));
}

// abort() makes all work fail that has not begun.
void aborted(const RankPlace& place, const Communicator& communicator) {
  const Communicator child = communicator->split(0, place.rank, kLong);
  if (place.rank == 0) {
    std::vector<float> data(5);
    std::vector<host::Work> works;
    works.push_back(start(child, RT_RECEIVE, data, 1));
    works.push_back(start(child, RT_ALL_REDUCE, data));
    child->abort();
    for (host::Work& work : works) {
      try {
        work.wait(kLong);
      } catch (const host::Error& error) {
        say(place, error.what());
      }
    }
  }
  barrier(communicator);
}

using Options = std::map<std::string, std::string>;

// The conformance checks with options other than the defaults.
void conform(const RankPlace& place, const char* plugin, const Options& options) {
  namespace conformance = plugins::conformance;
  auto cases = conformance::communicator_cases();
  // In the scene in_parts the large cases (64 MiB) would take too long in chunks of 1000 elements.
  // In the scene ring only all-reduces are checked, because nothing else uses the ring.
  const bool ring = options.contains("ring");
  std::erase_if(cases, [&](const auto& c) {
    return ring ? c.name.find("all_reduce") == std::string::npos : c.name.starts_with("large/");
  });
  const auto communicator = collectives::testing::join(place, plugin, options, kLong);
  const auto summary =
      conformance::run_communicator_cases({communicator, place.rank, place.size}, cases);
  say(place, summary.text());
  if (summary.failed > 0) throw host::Error(RT_ERROR_INTERNAL, "a check failed");
}

// MPI can be initialised only once per process.
void again(const RankPlace& place, const char* plugin) {
  join(place, plugin, "first", kLong).reset();
  join(place, plugin, "second", kLong);
}

void missing(const RankPlace& place, const char* plugin) {
  if (place.rank == 1) std::this_thread::sleep_for(kLong);
  join(place, plugin, "test", 500ms);
}

int run(const char* plugin, const std::string& scene) {
  const RankPlace place = collectives::testing::rank_place();
  try {
    if (scene == "again") return again(place, plugin), 0;
    if (scene == "in_parts")
      return conform(place, plugin, {{"largest_count", "1000"}, {"shared_memory", "off"}}), 0;
    if (scene == "ring")
      return conform(place, plugin, {{"ring", "on"}, {"shared_memory", "off"}}), 0;
    if (scene == "missing") return missing(place, plugin), 0;
    RankPlace asked = place;
    if (scene == "wrong_size") asked.size += 1;
    const std::string prefix = scene == "prefixes" ? std::to_string(place.rank) : "test";
    const Communicator communicator = join(asked, plugin, prefix, kLong);
    if (scene == "killed") killed(place, communicator);
    if (scene == "stopped") stopped(place, communicator);
    if (scene == "stopped_inside") stopped_inside(place, communicator);
    if (scene == "unmatched_receive") unmatched_receive(place, communicator);
    if (scene == "too_many") mismatch(place, communicator, 10, 4);
    if (scene == "too_few") mismatch(place, communicator, 4, 10);
    if (scene == "aborted") aborted(place, communicator);
  } catch (const host::Error& error) {
    say(place, (error.code() == RT_ERROR_TIMEOUT ? "timeout: " : "") + std::string(error.what()));
    return 4;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) return run(argv[1], argv[2]);
  std::fprintf(stderr, "usage: %s <plugin library> <scene>\n", argv[0]);
  return 2;
}
