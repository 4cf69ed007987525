// The checks that every communicator must pass, with each MPI library.
#include <gmock/gmock.h>

#include "plugins/host/registry.h"
#include "tests/collectives/mpi/library.h"

namespace collectives::testing {
namespace {

class MpiConformance : public ::testing::TestWithParam<std::tuple<MpiLibrary, int>> {};

TEST_P(MpiConformance, EveryCase) {
  const auto& [library, ranks] = GetParam();
  expect_success(mpi_job(library, ranks, {CONFORMANCE_RANK, library.plugin}));
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpiConformance,
                         ::testing::Combine(::testing::ValuesIn(mpi_libraries()),
                                            ::testing::Values(1, 2, 3, 4, 5)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

class MpiOptions : public ::testing::TestWithParam<MpiLibrary> {};

// As on several machines, where MPI carries out everything.
TEST_P(MpiOptions, WithoutSharedMemory) {
  expect_success(
      mpi_job(GetParam(), 2, {CONFORMANCE_RANK, GetParam().plugin, "shared_memory=off"}));
}

// Buffers with more elements than one call of MPI may have are sent in several calls.
TEST_P(MpiOptions, InParts) {
  expect_success(mpi_job(GetParam(), 3, {FAULTS_RANK, GetParam().plugin, "in_parts"}));
}

TEST_P(MpiOptions, AroundTheRing) {
  expect_success(mpi_job(GetParam(), 3, {FAULTS_RANK, GetParam().plugin, "ring"}));
}

// The program asks a library in a process that no mpiexec has started, before MPI has.
TEST_P(MpiOptions, TheProgramFindsThePlugin) {
  plugins::host::SearchPath path = plugins::host::SearchPath::standard();
  path.configured = {GetParam().plugin};
  path.environment.clear();
  path.built_in.clear();
  const plugins::host::Registry registry(path, {});
  for (const auto& rejection : registry.rejections()) ADD_FAILURE() << rejection.reason;
  ASSERT_EQ(registry.plugins().size(), 1u);
  EXPECT_EQ(registry.plugins()[0].name, "mpi");
}

#ifdef CUDA_DOUBLE
// Uses a library that claims to read device memory; see tests/doubles.
TEST_P(MpiOptions, InTheMemoryOfDevices) {
  JobOptions job =
      mpi_job(GetParam(), 2, {CONFORMANCE_RANK, GetParam().plugin, "device=" CUDA_DOUBLE});
  job.environment["LD_PRELOAD"] = MPI_READS_DEVICES;
  for (const std::string& output : expect_success(job)) {
    EXPECT_THAT(output, ::testing::Not(::testing::HasSubstr(": 0 passed")));
    RecordProperty("output", output);
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Libraries, MpiOptions, ::testing::ValuesIn(mpi_libraries()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace collectives::testing
