// Checks the units of [cluster], and what it leaves to the plugin.
#include "runtime/analysis/cluster.h"

#include <gtest/gtest.h>

namespace runtime::analysis {
namespace {

constexpr parallel::Link kOfPlugin{3e-6, 4e9, false};

TEST(Cluster, AnEmptySectionIsOneNodeOfThisMachinesDevices) {
  EXPECT_FALSE(sheet_of({}));
  const parallel::Cluster cluster = cluster_of({}, kOfPlugin);
  EXPECT_EQ(cluster.node_of(1000), 0);
  EXPECT_DOUBLE_EQ(cluster.inside.latency_s, 3e-6);
  EXPECT_DOUBLE_EQ(cluster.inside.bytes_per_second, 4e9);
  EXPECT_FALSE(cluster.inside.in_background);
}

TEST(Cluster, UnitsAndSharers) {
  config::Cluster section;
  section.nodes = 4;
  section.devices_per_node = 8;
  section.link_latency_us = 2;
  section.link_gbps = 3600;
  section.network_gbps = 400;
  section.network_sharers = 4;
  section.tflops = 600;
  section.memory_tbps = 3;
  section.memory_gib = 80;
  section.launch_us = 1.5;
  EXPECT_EQ(section.ranks(), 32);
  const parallel::Cluster cluster = cluster_of(section, kOfPlugin);
  EXPECT_EQ(cluster.node_of(7), 0);
  EXPECT_EQ(cluster.node_of(8), 1);
  EXPECT_DOUBLE_EQ(cluster.inside.bytes_per_second, 450e9);
  EXPECT_DOUBLE_EQ(cluster.between.latency_s, 2e-6);  // as inside
  EXPECT_DOUBLE_EQ(cluster.between.bytes_per_second, 12.5e9);
  const DeviceSheet sheet = sheet_of(section).value();
  EXPECT_EQ(sheet.memory, 80ull << 30);
  // 3 TB take a second; a sixth of the arithmetic is done by then.
  EXPECT_DOUBLE_EQ(sheet.limits.seconds(100e12, 3e12), 1 + 1.5e-6);
  EXPECT_DOUBLE_EQ(sheet.limits.seconds(1200e12, 3e12), 2 + 1.5e-6);
}

// Without a bandwidth of its own the network has that of the links, which nobody shares.
TEST(Cluster, ANetworkThatIsNotDescribedIsLikeTheLinks) {
  config::Cluster section;
  section.devices_per_node = 2;
  section.nodes = 2;
  section.link_gbps = 80;
  section.network_sharers = 2;
  EXPECT_DOUBLE_EQ(cluster_of(section, kOfPlugin).between.bytes_per_second, 10e9);
}

}  // namespace
}  // namespace runtime::analysis
