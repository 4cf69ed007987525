// The sections that say how several ranks work together; see config.h.
#ifndef RUNTIME_CONFIG_RANKS_H_
#define RUNTIME_CONFIG_RANKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace runtime::config {

// Keys of plugins' own, [device.<plugin>] or [comm.<plugin>]: by plugin, by key, values as text.
using PluginOptions = std::map<std::string, std::map<std::string, std::string>>;

struct Parallelism {
  int data = -1;  // -1: what tensor and pipeline leave
  int tensor = 1;
  int pipeline = 1;
  std::string pipeline_schedule = "1f1b";  // gpipe | 1f1b | interleaved
  int microbatches = 0;                    // of each rank's part of a batch; "auto" is 0
  int zero_stage = 0;
  bool sync_batch_norm = false;
  std::string update = "synchronous";  // synchronous | asynchronous
  int64_t max_staleness = 0;
  std::string share = "equal";  // equal | by_speed
  bool search = false;          // the fastest mesh that fits; then data, tensor, pipeline are left
};

struct Comm {
  std::string backend = "auto";
  std::string rendezvous = "auto";  // auto | file | redis | pmix | env
  std::string rendezvous_address;
  double bucket_mb = 25;  // MiB
  bool overlap = true;
  std::string interface = "lo";
  double init_timeout_s = 60;
  double timeout_s = 300;
  double save_timeout_s = 1800;
  bool check = false;
  PluginOptions options;
};

struct Launch {
  int ranks = 1;
  std::vector<std::string> devices;
  int max_restarts = 0;
  std::string mpiexec = "mpiexec";
};

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_RANKS_H_
