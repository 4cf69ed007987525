// Measures all-reduces of float32 sums among processes of this machine: Gloo called directly (ring
// and halving-doubling), and the plugin `gloo` of this project if its library is given.
//
//   bare_gloo [--ranks R] [--bytes N] [--plugin <absolute path of libcollectives_gloo.so>]
//   [--rounds N]
//
// The contenders take turns in each round; a figure is the median over the rounds of rank 0's mean
// time of a call.

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "plugins/host/communicator.h"

namespace {

namespace fs = std::filesystem;
namespace host = plugins::host;
using Clock = std::chrono::steady_clock;

struct Arguments {
  int ranks = 2;
  int rounds = 15;
  std::vector<std::size_t> bytes = {4 << 10, 100 << 10, 1 << 20, 1700 << 10, 25 << 20};
  std::string plugin;
};

struct Contender {
  const char* name;
  std::function<void(float* data, std::size_t count)> all_reduce;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--ranks")) arguments.ranks = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--rounds")) arguments.rounds = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--bytes"))
      arguments.bytes = {std::strtoull(argv[i + 1], nullptr, 10)};
    if (!std::strcmp(argv[i], "--plugin")) arguments.plugin = argv[i + 1];
  }
  return arguments;
}

std::shared_ptr<gloo::Context> join(int rank, int ranks, const fs::path& folder) {
  gloo::transport::tcp::attr attributes("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  return context;
}

Contender bare(const char* name, std::shared_ptr<gloo::Context> context,
               gloo::AllreduceOptions::Algorithm algorithm) {
  return {
      name, [=](float* data, std::size_t count) {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(algorithm);
        options.setOutput(data, count);
        options.setReduceFunction(
            static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
      }};
}

// A key-value store in a folder. Slashes in keys are replaced. A value is written under another
// name and then renamed, so that a key is complete once it exists.
host::HostServices file_store(const fs::path& folder) {
  const auto path_of = [folder](std::string key) {
    std::replace(key.begin(), key.end(), '/', '_');
    return folder / key;
  };
  host::HostServices services;
  services.kv_set = [=](const std::string& key, const std::string& value) {
    const fs::path incomplete = path_of(key).string() + ".part";
    std::ofstream(incomplete, std::ios::binary) << value;
    fs::rename(incomplete, path_of(key));
  };
  services.kv_get = [=](const std::string& key, std::chrono::nanoseconds) {
    while (!fs::exists(path_of(key))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::ifstream file(path_of(key), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  return services;
}

Contender ours(int rank, const Arguments& arguments, const fs::path& folder) {
  const auto plugin = host::Plugin::load(arguments.plugin, file_store(folder));
  const auto communicator = host::Communicator::create(
      plugin, {.rank = rank, .world_size = arguments.ranks, .prefix = "bench"});
  return {
      "plugin", [=](float* data, std::size_t count) {
        communicator
            ->enqueue(host::make_collective(RT_ALL_REDUCE, RT_FLOAT32, data, data, count, RT_SUM))
            .wait(std::chrono::minutes(1));
      }};
}

// The time of one call: elapsed, and processor time of all threads of this rank.
struct Time {
  double elapsed, processor;  // in microseconds
};

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Time time_of(const Contender& contender, std::vector<float>& data, int calls) {
  contender.all_reduce(data.data(), data.size());  // makes all ranks begin together
  const auto begin = Clock::now();
  const double processor = processor_seconds();
  for (int i = 0; i < calls; ++i) contender.all_reduce(data.data(), data.size());
  return {std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls,
          1e6 * (processor_seconds() - processor) / calls};
}

double median(std::vector<Time> times, double Time::*member) {
  std::sort(times.begin(), times.end(),
            [&](const Time& a, const Time& b) { return a.*member < b.*member; });
  return times[times.size() / 2].*member;
}

// Gives each rank one core for all its threads, as in training.
void pin(int rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(rank) % std::thread::hardware_concurrency(), &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

void measure(int rank, const Arguments& arguments, const fs::path& folder) {
  const auto context = join(rank, arguments.ranks, folder / "bare");
  std::vector<Contender> contenders = {
      bare("ring", context, gloo::AllreduceOptions::Algorithm::RING),
      bare("bcube", context, gloo::AllreduceOptions::Algorithm::BCUBE)};
  if (!arguments.plugin.empty()) contenders.push_back(ours(rank, arguments, folder / "plugin"));
  if (rank == 0) std::printf("microseconds of a call (of processor time)\n");
  for (const std::size_t bytes : arguments.bytes) {
    std::vector<float> data(bytes / sizeof(float), 0.0f);
    const int calls = std::clamp(static_cast<int>((8 << 20) / bytes), 3, 200);
    std::vector<std::vector<Time>> times(contenders.size());
    for (int round = 0; round < arguments.rounds; ++round) {
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        times[i].push_back(time_of(contenders[i], data, calls));
      }
    }
    if (rank != 0) continue;
    std::printf("%9zu bytes", bytes);
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      std::printf("  %s %8.1f (%8.1f)", contenders[i].name, median(times[i], &Time::elapsed),
                  median(times[i], &Time::processor));
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const fs::path folder = fs::temp_directory_path() / ("bare_gloo_" + std::to_string(::getpid()));
  fs::create_directories(folder / "bare");
  fs::create_directories(folder / "plugin");
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(rank);
    measure(rank, arguments, folder);
    return 0;
  }
  int failed = 0, status = 0;
  while (::wait(&status) > 0) failed += status != 0;
  fs::remove_all(folder);
  return failed == 0 ? 0 : 1;
}
