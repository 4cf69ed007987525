// The conformance cases of communicators, on ranks that are started as the plugin says.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <list>
#include <thread>

#include "plugins/check/check.h"
#include "plugins/check/ranks.h"
#include "plugins/check/temporary_folder.h"
#include "plugins/conformance/file_store.h"
#include "plugins/host/child.h"
#include "plugins/host/communicator.h"

namespace plugins::check {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

rt_comm_properties properties_of(Context& context) {
  if (context.plugin()->communicator_api() == nullptr)
    throw Skip("the plugin offers no communicators (rt.communicator)");
  const rt_comm_properties properties = host::communicator_properties(*context.plugin());
  if (properties.device_plugin[0] != '\0')
    throw Skip(fmt::format("the communicator moves memory of the devices of '{}' only",
                           properties.device_plugin));
  return properties;
}

std::vector<std::string> arguments_of(const Setup& setup, const fs::path& store) {
  std::vector<std::string> all = {setup.library.string(), "--store", store.string()};
  for (const auto& [key, value] : setup.options) {
    all.push_back("--set");
    all.push_back(key + "=" + value);
  }
  return all;
}

fs::path find_program(const char* name) {
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    fs::path file = fs::path(rest.substr(0, end)) / name;
    if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  throw Skip(fmt::format("{} is not found in PATH; it starts the ranks of this plugin", name));
}

// Waits until every process has closed its pipe, or the limit has passed.
void wait_for(std::list<host::Child>& children) {
  const auto limit = Clock::now() + 3 * kRankTimeout;
  for (host::Child& child : children) {
    while (Clock::now() < limit) {
      pollfd descriptors[] = {{child.answer_descriptor(), POLLIN, 0},
                              {child.output_descriptor(), POLLIN, 0}};
      ::poll(descriptors, 2, 1000);
      if (child.output_descriptor() >= 0) child.read_output();
      if (!child.read_answer()) break;
    }
  }
}

// Open MPI refuses to start ranks for root, which is the user of most containers, or more ranks
// than there are processors. Other MPIs do not know these variables.
void allow_everything_in_mpi() {
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  ::setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
}

// Starts the ranks, each or all of them by one command, and returns what the last rank has found.
std::string run_processes(const Setup& setup, int32_t size, bool mpi) {
  const TemporaryFolder store;
  const fs::path self = fs::read_symlink("/proc/self/exe");
  std::list<host::Child> children;
  std::vector<std::string> arguments = arguments_of(setup, store.path());
  if (mpi) {
    const fs::path mpiexec = find_program("mpiexec");
    allow_everything_in_mpi();
    arguments.insert(arguments.begin(), {"-n", std::to_string(size), self.string()});
    arguments.emplace_back("--mpi-rank");
    children.emplace_back(mpiexec, arguments, Clock::time_point::max());
  } else {
    for (int32_t rank = 0; rank < size; ++rank) {
      std::vector<std::string> all = arguments;
      all.insert(all.end(), {"--rank", std::to_string(rank), "--ranks", std::to_string(size)});
      children.emplace_back(self, all, Clock::time_point::max());
    }
  }
  wait_for(children);
  std::string endings;
  for (host::Child& child : children) {
    endings += " " + child.end();
    if (child.output_descriptor() >= 0) child.read_output();
    if (!child.last_words().empty()) endings += " (" + child.last_words() + ")";
  }
  std::string text;
  for (int32_t rank = 0; rank < size; ++rank) {
    std::ifstream file(store.path() / fmt::format("result.{}", rank));
    require(static_cast<bool>(file),
            fmt::format("rank {} of {} gave no answer; its processes{}", rank, size, endings));
    text.assign(std::istreambuf_iterator<char>(file), {});
    require(!text.starts_with("failed"), text);
  }
  return text;
}

// Ranks as threads that share one instance of the plugin.
std::string run_threads(const Setup& setup, int32_t size) {
  const TemporaryFolder store;
  const auto plugin = host::Plugin::load(setup.library, conformance::file_store(store.path()));
  std::vector<std::string> texts(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& text = texts[static_cast<size_t>(rank)];
      try {
        text = run_rank(setup, plugin, {rank, size, store.path()});
      } catch (const std::exception& error) {
        text = std::string("failed: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) require(!text.starts_with("failed"), text);
  return texts.front();
}

std::string agrees_on_ranks(Context& context, int32_t size) {
  const rt_comm_properties properties = properties_of(context);
  if (properties.ranks == RT_RANKS_THREADS) return run_threads(context.setup(), size);
  return run_processes(context.setup(), size, properties.ranks == RT_RANKS_MPI);
}

std::string claims_something(Context& context) {
  properties_of(context);
  const auto rows = host::list_capabilities(*context.plugin());
  require(!rows.empty(), "the communicator claims no collective");
  const auto claims = [&](int32_t collective, rt_dtype dtype) {
    return std::any_of(rows.begin(), rows.end(), [&](const rt_comm_capability& row) {
      return row.collective == collective && (row.dtypes & RT_DTYPE_BIT(dtype)) != 0;
    });
  };
  require(claims(RT_ALL_REDUCE, RT_FLOAT32) || claims(RT_ALL_REDUCE, RT_FLOAT64),
          "the communicator does not claim all_reduce in float32 or float64, without which no "
          "gradients can be averaged");
  require(claims(RT_ALL_GATHER, RT_UINT8),
          "the communicator does not claim all_gather of bytes (uint8), with which the ranks of "
          "every job compare their configurations");
  return fmt::format("{} rows", rows.size());
}

}  // namespace

void add_communicator_checks(std::vector<Check>& checks) {
  checks.push_back(
      {"communicator", "claims the collectives of data parallelism", claims_something});
  for (const int32_t size : {1, 2, 3, 4}) {
    checks.push_back({"communicator",
                      fmt::format("every collective on {} rank{}", size, size == 1 ? "" : "s"),
                      [size](Context& context) { return agrees_on_ranks(context, size); }});
  }
}

}  // namespace plugins::check
