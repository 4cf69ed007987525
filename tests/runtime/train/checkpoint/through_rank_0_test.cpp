// Checkpoints of ranks that do not share a folder, with ranks that are threads;
// tests/strangers/hosts_test.py has those of whole runs.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "runtime/error.h"
#include "runtime/train/checkpoint/assembly.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/checkpoint/rank_state.h"
#include "runtime/train/checkpoint/saver.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/train/job.h"

namespace runtime::train {
namespace {

namespace fs = std::filesystem;
using exec::LocalRank;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr char kNet[] = R"(
[model]
input = [6]
layers = [ { type = "linear", features = 5 }, { type = "batch_norm" }, { type = "linear", features = 3 } ]
[dataset]
name = "synthetic"
samples = 20
classes = 3
[training]
global_batch_size = 8
[optimizer]
name = "adamw"
)";

OnMain on_main_of(LocalRank& rank) {
  return [&rank](const char*, const std::function<void()>& work) {
    if (rank.rank == 0) work();
    double all = 0;
    rank.collectives.all_reduce(&all, 1, RT_SUM);
  };
}

// Saves a job of two ranks after `change`, which gets the tensors of a rank.
void save(const fs::path& folder, bool through_rank_0, int zero_stage,
          const std::function<void(int rank, StepPrograms&)>& change = nullptr,
          const std::string& net = kNet) {
  const auto errors = exec::on_local_ranks(2, [&](LocalRank& rank) {
    const config::Config config =
        test::parse(net, {{"parallelism.zero_stage", std::to_string(zero_stage)}});
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = &rank.collectives;
    StepPrograms programs(RankSetup(config, open_data(config, nullptr).train->spec(),
                                    test::open_device("reference"), options));
    const auto shared = std::shared_ptr<StepPrograms>(&programs, [](StepPrograms*) {});
    const Trainer trainer(shared);
    if (change) change(rank.rank, programs);
    CheckpointSaver saver(programs.rank_model(), {.folder = folder,
                                                  .configuration = "text",
                                                  .finite = true,
                                                  .on_main = on_main_of(rank),
                                                  .note = [](const std::string&) {},
                                                  .through_rank_0 = through_rank_0});
    SavedState state;
    state.step = 7;
    state.mesh = {2, 1, 1};
    saver.save(state);
    saver.finish();
  });
  EXPECT_THAT(errors, Each(""));
}

// The statistics of each rank, which no other rank has, differ.
void mark(int rank, StepPrograms& programs) {
  for (const HeldTensor& held : held_tensors(programs.rank_model())) {
    if (!held.name.starts_with(kStatisticsGroup)) continue;
    const std::vector<float> numbers(static_cast<size_t>(held.slice.elements()),
                                     static_cast<float>(rank + 1));
    programs.stream().copy(held.address, numbers.data(), held.bytes());
  }
  programs.stream().synchronize();
}

TEST(ThroughRank0, SavesWhatASharedFolderHas) {
  for (const int zero_stage : {0, 1, 3}) {
    test::TemporaryFolder folder;
    save(folder.path() / "shared", false, zero_stage, mark);
    save(folder.path() / "through", true, zero_stage, mark);
    const fs::path shared = folder.path() / "shared" / checkpoint_name(7),
                   through = folder.path() / "through" / checkpoint_name(7);
    const Manifest manifest = verify_checkpoint(through);
    EXPECT_TRUE(same_bits(join_checkpoint(shared, verify_checkpoint(shared)),
                          join_checkpoint(through, manifest)));
    const auto own = data::read_safetensors((through / rank_file(1)).string());
    for (const auto& [name, tensor] : own.tensors) {
      // Without ZeRO rank 0 has all but the statistics.
      const bool statistics = name.starts_with(kStatisticsGroup);
      EXPECT_TRUE(statistics || zero_stage > 0) << name;
      EXPECT_TRUE(!statistics || numbers(tensor) == Numbers(numbers(tensor).size(), 2.0)) << name;
    }
    EXPECT_FALSE(own.tensors.empty());
  }
}

TEST(ThroughRank0, NamesTheRankWhoseNumbersAreNotFinite) {
  test::TemporaryFolder folder;
  const auto errors = exec::on_local_ranks(2, [&](LocalRank& rank) {
    const config::Config config = test::parse(kNet);
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = &rank.collectives;
    StepPrograms programs(RankSetup(config, open_data(config, nullptr).train->spec(),
                                    test::open_device("reference"), options));
    programs.any_compiled();
    for (const HeldTensor& held : held_tensors(programs.rank_model())) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      if (rank.rank == 1 && held.name.starts_with(kStatisticsGroup))
        programs.stream().copy(held.address, &nan, sizeof(nan));
    }
    CheckpointSaver saver(programs.rank_model(), {.folder = folder.path(),
                                                  .configuration = "text",
                                                  .finite = true,
                                                  .on_main = on_main_of(rank),
                                                  .note = [](const std::string&) {},
                                                  .through_rank_0 = true});
    saver.save({});
    saver.finish();
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1: tensor 'statistics/"));
  EXPECT_THAT(errors[1], HasSubstr("the checkpoint of step 0 was not saved"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

void flip_last_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int byte = file.get();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
}

// A rank finds the checkpoint of rank 0 in its folder, a damaged copy, nothing, or another one.
TEST(CheckpointFiles, AreReadByRank0WhereOneRankLacksThem) {
  for (const std::string other : {"same", "damaged", "nothing", "cut", "another"}) {
    test::TemporaryFolder folder;
    const auto folder_of = [&](int rank) { return folder.path() / std::to_string(rank); };
    save(folder_of(0), false, 0, mark);
    const fs::path own = folder_of(1) / checkpoint_name(7);
    if (other == "another") save(folder_of(1), false, 3, mark);
    if (other == "same" || other == "damaged" || other == "cut")
      fs::copy(folder_of(0), folder_of(1), fs::copy_options::recursive);
    if (other == "cut") fs::resize_file(own / rank_file(1), 10);
    if (other == "damaged") flip_last_byte(own / rank_file(1));
    const auto errors = exec::on_local_ranks(2, [&](LocalRank& rank) {
      const CheckpointFiles files(folder_of(rank.rank) / checkpoint_name(7), &rank.collectives,
                                  on_main_of(rank));
      EXPECT_EQ(files.through_rank_0(), other != "same") << other;
      const Manifest expected = read_manifest(folder_of(0) / checkpoint_name(7));
      EXPECT_EQ(to_json(files.manifest().state), to_json(expected.state)) << other;
      for (int r = 0; r < 2; ++r) {
        const std::string path = (folder_of(0) / checkpoint_name(7) / rank_file(r)).string();
        EXPECT_TRUE(same_bits(files.tensors(rank_file(r)), data::read_safetensors(path))) << other;
      }
      EXPECT_EQ(files.text(kSavedConfiguration), "text");
    });
    EXPECT_THAT(errors, Each("")) << other;
  }
}

// Bytes that this thread has read from files so far; nullopt: the kernel does not tell.
std::optional<uint64_t> bytes_read() {
  std::ifstream io("/proc/thread-self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value)
    if (name == "rchar:") return value;
  return std::nullopt;
}

// Two ranks go on from the files of two: each reads its own, and what both have is read once.
TEST(CheckpointFiles, AreReadOnceByAllRanksTogether) {
  if (!bytes_read()) GTEST_SKIP() << "/proc/thread-self/io cannot be read";
  std::string net = kNet;
  net.replace(net.find("features = 5"), 12, "features = 20000");
  for (const int zero_stage : {0, 1, 3}) {
    test::TemporaryFolder folder;
    save(folder.path(), false, zero_stage, mark, net);
    const fs::path path = folder.path() / checkpoint_name(7);
    uint64_t state = 0;
    for (const SavedFile& file : read_manifest(path).files) state += file.bytes;
    const data::TensorFile expected = join_checkpoint(path, read_manifest(path));
    std::atomic<uint64_t> read = 0;
    const auto errors = exec::on_local_ranks(2, [&](LocalRank& rank) {
      const config::Config config =
          test::parse(net, {{"parallelism.zero_stage", std::to_string(zero_stage)}});
      exec::CompileOptions options{{.tune = exec::Tune::kOff}};
      options.collectives = &rank.collectives;
      StepPrograms programs(RankSetup(config, open_data(config, nullptr).train->spec(),
                                      test::open_device("reference"), options));
      programs.any_compiled();
      const uint64_t before = *bytes_read();
      restore(open_checkpoint(path, &rank.collectives, on_main_of(rank)), programs.rank_model());
      read += *bytes_read() - before;
      // Each rank has its own statistics again, and all that both have.
      for (const HeldTensor& held : held_tensors(programs.rank_model())) {
        std::vector<float> numbers(static_cast<size_t>(held.slice.elements()));
        programs.stream().copy(numbers.data(), held.address, held.bytes());
        programs.stream().synchronize();
        if (held.name.starts_with(kStatisticsGroup)) {
          EXPECT_THAT(numbers, Each(static_cast<float>(rank.rank + 1))) << held.name;
          continue;
        }
        const std::byte* const saved = expected.tensors.at(held.name).bytes.data();
        const uint64_t begin = static_cast<uint64_t>(held.slice.begin) * sizeof(float);
        EXPECT_EQ(std::memcmp(numbers.data(), saved + begin, held.bytes()), 0) << held.name;
      }
    });
    EXPECT_THAT(errors, Each(""));
    EXPECT_GT(read, state * 9 / 10) << zero_stage;
    EXPECT_LT(read, state * 11 / 10) << zero_stage;
  }
}

// Rank 1 has a copy of its own, which is cut once all have looked at it.
TEST(CheckpointFiles, ThatOneRankCannotReadAreTheSameErrorOnEveryRank) {
  test::TemporaryFolder folder;
  const auto folder_of = [&](int rank) { return folder.path() / std::to_string(rank); };
  save(folder_of(0), false, 0, mark);
  fs::copy(folder_of(0), folder_of(1), fs::copy_options::recursive);
  const auto errors = exec::on_local_ranks(2, [&](LocalRank& rank) {
    const config::Config config = test::parse(kNet, {{"parallelism.zero_stage", "0"}});
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = &rank.collectives;
    StepPrograms programs(RankSetup(config, open_data(config, nullptr).train->spec(),
                                    test::open_device("reference"), options));
    programs.any_compiled();
    const fs::path path = folder_of(rank.rank) / checkpoint_name(7);
    const Resumed from = open_checkpoint(path, &rank.collectives, on_main_of(rank));
    EXPECT_FALSE(from.files.through_rank_0());
    for (const int r : {0, 1})
      if (rank.rank == 1) fs::resize_file(path / rank_file(r), 8);
    restore(from, programs.rank_model());
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("was cut while"), HasSubstr(folder_of(1).string()))));
}

TEST(CheckpointFiles, ThatRank0CannotReadAreAnErrorOnEveryRank) {
  test::TemporaryFolder folder;
  EXPECT_THAT(exec::on_local_ranks(2,
                                   [&](LocalRank& rank) {
                                     const CheckpointFiles files(folder.path(), &rank.collectives,
                                                                 on_main_of(rank));
                                   }),
              Each(HasSubstr(std::string(kManifest))));
}

}  // namespace
}  // namespace runtime::train
