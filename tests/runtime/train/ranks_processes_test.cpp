// Ranks that are processes, started by our launcher and by mpirun, compute what one rank computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/runtime/train/job.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {
namespace {

constexpr double kTolerance = 1e-9;

bool has_plugin(const std::string& name) {
  return std::filesystem::exists(std::string(PLUGIN_FOLDER) + "/libcollectives_" + name + ".so");
}

const Settings kDeterministic = {{"debug.deterministic", "true"}};

class RanksProcesses : public testing::Test {
 protected:
  RanksProcesses() { std::filesystem::create_directory(folder_.path() / "tmp"); }
  // Expects that no rendezvous folder of a launcher is left. The folder of the user, in which ranks
  // meet that this program's launcher has not started, stays.
  void TearDown() override {
    const std::string of_user = "runtime-" + std::to_string(geteuid());
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "tmp")) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == of_user || !name.starts_with("runtime-")) << entry.path();
    }
  }

  // Rank 0's trace of ranks_probe, started by the command `launcher`.
  Trace probe(const std::string& launcher, const std::string& toml, int steps, Settings settings) {
    const std::string config = folder_.write("job.toml", toml);
    const std::string file = (folder_.path() / "trace.safetensors").string();
    std::filesystem::remove(file);
    std::string command = "TMPDIR=" + (folder_.path() / "tmp").string() + " timeout -k 5 60 " +
                          launcher + RANKS_PROBE " " + file + " " + std::to_string(steps) + " - " +
                          config;
    settings.push_back({"plugins.path", folders_});
    for (const config::Override& o : settings) command += " '" + o.key + "=" + o.value + "'";
    const std::string output = (folder_.path() / "output").string();
    const int status = std::system((command + " >" + output + " 2>&1").c_str());
    EXPECT_EQ(status, 0) << command << "\n" << test::read_text(output);
    return status == 0 ? data::read_safetensors(file) : Trace{};
  }

  Trace launched(const std::string& backend, int ranks, const std::string& toml, int steps,
                 const Settings& settings = {}) {
    return probe(
        "", toml, steps,
        settings + Settings{{"comm.backend", backend}, {"launch.ranks", std::to_string(ranks)}});
  }

  Trace by_mpirun(int ranks, const std::string& toml, int steps, const Settings& settings = {}) {
    std::string launcher =
        "env OMPI_MCA_rmaps_base_oversubscribe=1 "
        "OMPI_MCA_hwloc_base_binding_policy=none "
        "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe "
        "PRTE_MCA_hwloc_default_binding_policy=none ";
    if (geteuid() == 0) launcher += "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ";
    return probe(launcher + "mpirun -n " + std::to_string(ranks) + " ", toml, steps, settings);
  }

  // Results agree within the tolerance in float64, and bit for bit with debug.deterministic.
  template <class Run>
  void expect_equal_to_one_rank(const std::vector<int>& ranks, Run run) {
    for (const std::string& toml : {kSmallLeNet, kSmallResNet}) {
      const Trace one = trace(toml, 1, 20), fixed = trace(toml, 1, 20, kDeterministic);
      for (const int n : ranks) {
        const Difference d = largest_difference(run(n, toml, Settings{}), one);
        EXPECT_LT(d.relative, kTolerance) << n << " ranks: " << d.name;
        EXPECT_TRUE(same_bits(run(n, toml, kDeterministic), fixed)) << n << " ranks";
      }
    }
  }

  // Ranks that split one model, over the plugin `backend`.
  void expect_mesh_equal_to_one_rank(const std::string& backend, int ranks,
                                     const Settings& settings) {
    const GptFile gpt;
    for (const std::string& toml : {kSmallLeNet, gpt.toml()}) {
      const Difference d =
          largest_difference(launched(backend, ranks, toml, 6, settings), trace(toml, 1, 6));
      EXPECT_LT(d.relative, kTolerance) << d.name;
    }
  }

  test::TemporaryFolder folder_;
  std::string folders_ = plugin_folders();
};

// As with NCCL: "auto" selects the communicator that reads device memory.
class RanksOnStreams : public RanksProcesses, public testing::WithParamInterface<Settings> {};

INSTANTIATE_TEST_SUITE_P(Meshes, RanksOnStreams,
                         testing::Values(Settings{{"comm.bucket_mb", "0.0005"}},
                                         Settings{{"parallelism.zero_stage", "3"}},
                                         Settings{{"parallelism.tensor", "2"}},
                                         Settings{{"parallelism.pipeline", "2"},
                                                  {"parallelism.microbatches", "3"}}));

TEST_P(RanksOnStreams, EqualOneRank) {
  folders_.insert(1, std::string("\"") + STREAM_PLUGIN_FOLDER + "\", ");
  const Settings devices = {{"device.backend", "simulated"}, {"device.index", "[0, 1]"}};
  const Difference d = largest_difference(launched("auto", 2, kSmallLeNet, 4, devices + GetParam()),
                                          trace(kSmallLeNet, 1, 4));
  EXPECT_LT(d.relative, kTolerance) << d.name;
}

TEST_F(RanksProcesses, GlooEqualsOneRank) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  expect_equal_to_one_rank({2, 3, 4}, [&](int n, const std::string& toml, const Settings& s) {
    return launched("gloo", n, toml, 20, s);
  });
}

TEST_F(RanksProcesses, ZeroOverGloo) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  const Trace one = trace(kSmallLeNet, 1, 8);
  const Settings small = {{"comm.bucket_mb", "0.0005"}};
  for (const char* stage : {"2", "3"}) {
    const Settings zero = small + Settings{{"parallelism.zero_stage", stage}};
    const Difference d = largest_difference(launched("gloo", 3, kSmallLeNet, 8, zero), one);
    EXPECT_LT(d.relative, kTolerance) << stage << ": " << d.name;
  }
}

TEST_F(RanksProcesses, MeshesOverGlooEqualOneRank) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  expect_mesh_equal_to_one_rank("gloo", 2, mesh(2, 1));
  expect_mesh_equal_to_one_rank("gloo", 2, mesh(1, 2));
  expect_mesh_equal_to_one_rank("gloo", 4, mesh(2, 1));
}

TEST_F(RanksProcesses, MpiEqualsOneRank) {
  if (!has_plugin("mpi")) GTEST_SKIP() << "no plugin mpi here";
  expect_equal_to_one_rank({2, 3, 4}, [&](int n, const std::string& toml, const Settings& s) {
    return launched("mpi", n, toml, 20, s);
  });
}

TEST_F(RanksProcesses, FourRanksOfMpirunEqualOneRank) {
  if (!has_plugin("mpi")) GTEST_SKIP() << "no plugin mpi here";
  expect_equal_to_one_rank({4}, [&](int n, const std::string& toml, const Settings& s) {
    return by_mpirun(n, toml, 20, s);
  });
}

TEST_F(RanksProcesses, MixedDevicesOverGloo) {
  if (!has_plugin("gloo")) GTEST_SKIP() << "no plugin gloo here";
  const Settings slow = {{"device.simulated.poison", "true"},
                         {"device.simulated.max_delay_us", "200"},
                         {"launch.devices", "[\"simulated:0\", \"simulated:1\"]"}};
  const Settings beside = {{"launch.devices", "[\"reference\", \"simulated\", \"reference\"]"}};
  for (const std::string& toml : {kSmallLeNet, kSmallResNet}) {
    EXPECT_TRUE(same_bits(launched("gloo", 2, toml, 5, slow), launched("gloo", 2, toml, 5)));
    EXPECT_TRUE(same_bits(launched("gloo", 3, toml, 5, beside + kDeterministic),
                          trace(toml, 1, 5, kDeterministic)));
  }
  if (!test::has_backend("cpu")) return;
  const Settings float32 = {{"training.dtype", "float32"}};
  const Difference d = largest_difference(
      launched("gloo", 2, kSmallLeNet, 3,
               float32 + Settings{{"launch.devices", "[\"cpu\", \"reference\"]"}}),
      trace(kSmallLeNet, 1, 3, float32));
  EXPECT_LT(d.relative, 1e-4) << d.name;
}

}  // namespace
}  // namespace runtime::train
