// The sections about several ranks: [parallelism], [comm], [launch] and [cluster]; see config.h.
#ifndef RUNTIME_CONFIG_RANKS_H_
#define RUNTIME_CONFIG_RANKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/row_of.h"

namespace runtime::config {

// Keys that a plugin defines itself, from [device.<plugin>], [comm.<plugin>] or [dataset.<plugin>]:
// plugin name to key to value as text.
using PluginOptions = std::map<std::string, std::map<std::string, std::string>>;

// [parallelism]: how the model and the batch are divided among ranks.
struct Parallelism {
  int data = -1;  // ranks along the data axis; -1: world size / (tensor * pipeline)
  int tensor = 1;
  int pipeline = 1;
  std::string pipeline_schedule = "1f1b";  // a row of parallel/schedule.cpp
  int microbatches = 0;                    // micro-batches of each rank's local batch; "auto": 0
  int zero_stage = 0;
  int zero_ranks = 0;  // neighbours that divide what zero_stage says; 0: all ranks of the data axis
  bool sync_batch_norm = false;
  std::string update = "synchronous";  // synchronous | asynchronous
  int64_t max_staleness = 0;
  std::string share = "equal";  // equal | by_speed
  bool search = false;          // searches for the fastest mesh that fits; data, tensor and
                                // pipeline are then not given

  bool asynchronous() const {
    return row_of<bool>("parallelism.update", update,
                        {{"synchronous", false}, {"asynchronous", true}});
  }
  bool by_speed() const {
    return row_of<bool>("parallelism.share", share, {{"equal", false}, {"by_speed", true}});
  }
};

// [comm]: how ranks find each other and exchange data.
struct Comm {
  std::string backend = "auto";
  std::string rendezvous = "auto";  // a row of launch/stores.cpp
  std::string rendezvous_address;
  double bucket_mb = 25;  // MiB of gradients in one bucket
  bool overlap = true;
  std::string interface = "lo";
  double init_timeout_s = 60;
  double hang_s = 10;
  double timeout_s = 300;
  double save_timeout_s = 1800;
  bool check = false;
  PluginOptions options;
};

// [launch]: which ranks the program starts itself.
struct Launch {
  int ranks = 1;
  std::vector<std::string> devices;
  int max_restarts = 0;
  int min_ranks = 0;  // 0: a rank that is lost is never left out
  double rejoin_minutes = 10;
  std::string mpiexec = "mpiexec";
  std::string log_folder;  // empty: no files with what ranks print
};

// [cluster]: the machines that `runtime plan` computes with, instead of this one.
struct Cluster {
  int nodes = 1;
  int devices_per_node = 0;  // one rank on each; 0: all ranks are on one node
  double tflops = 0, memory_tbps = 0, memory_gib = 0;  // of one device; 0: as the one here
  double launch_us = 2;                                // from one kernel to the next
  double link_latency_us = 0, link_gbps = 0;  // between two ranks of a node; 0: as the plugin says
  double network_latency_us = 0, network_gbps = 0;  // between nodes; 0: as between ranks of a node
  int network_sharers = 1;                          // ranks that share network_gbps

  bool describes_device() const { return tflops > 0; }
  // The number of ranks; 0: as many as there are.
  int ranks() const { return nodes * devices_per_node; }
};

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_RANKS_H_
