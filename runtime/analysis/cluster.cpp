// Converts the units of [cluster] and fills in what it does not say.
#include "runtime/analysis/cluster.h"

#include <algorithm>

namespace runtime::analysis {

namespace {

parallel::Link link(double latency_us, double gbps, parallel::Link otherwise) {
  if (latency_us > 0) otherwise.latency_s = latency_us * 1e-6;
  if (gbps > 0) otherwise.bytes_per_second = gbps * 1e9 / 8;
  return otherwise;
}

}  // namespace

std::optional<DeviceSheet> sheet_of(const config::Cluster& section) {
  if (!section.describes_device()) return std::nullopt;
  return DeviceSheet{{section.memory_tbps * 1e12, section.tflops * 1e12, section.launch_us * 1e-6},
                     static_cast<uint64_t>(section.memory_gib * (1 << 30))};
}

parallel::Cluster cluster_of(const config::Cluster& section, const parallel::Link& of_plugin) {
  parallel::Cluster cluster;
  cluster.ranks_per_node = section.devices_per_node;
  cluster.inside = link(section.link_latency_us, section.link_gbps, of_plugin);
  // Ranks on devices of their own are processes.
  cluster.inside.in_background |= section.devices_per_node > 0;
  cluster.between = link(section.network_latency_us, section.network_gbps / section.network_sharers,
                         cluster.inside);
  return cluster;
}

}  // namespace runtime::analysis
