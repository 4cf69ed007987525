// Checks how large files, headers and the core are.
#include <gtest/gtest.h>

#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

constexpr size_t kFileLines = 600;
// Lines of code, because a sentence about a declaration must not count against its header.
constexpr size_t kHeaderLines = 120;
// Headers with one list or one table each, which would be worse as two files.
const std::set<std::string> kLongHeaders = {
    "backends/cpu/onednn.h",              // RAII handles of one library
    "plugins/host/device.h",              // the handles for one table of the contract
    "plugins/sdk/rt/sdk/operation.h",     // header-only by design
    "runtime/config/config.h",            // one struct for each section
    "tests/runtime/graph/fake_target.h",  // one device made of tables
};
constexpr size_t kLongHeaderLines = 150;
// Lines of code (without comments and blank lines) of runtime/ and of the contract with its host
// side. The aim was about 12,000 lines, and it is missed. Training on one rank took 13,600;
// rendezvous, launcher, watchdog, data-parallel and asynchronous training 7,400; language models
// with their texts, image folders, recomputation, tensor and pipeline parallelism 4,900; ZeRO
// stages 2 and 3, plans of any mesh and the search for a mesh 500 (1,100, half of which simpler
// code elsewhere gave back); `verify` (the same steps on two devices) 620; 16-bit activations 350;
// collectives on the device's streams 350; recorded steps, handling of missing memory, and
// utilisation 450; splitting post-operations that no candidate fuses, and candidates that fail
// while they are measured, 90; keeping results when disks, memory and outputs fail (atomic and
// synced writes, checksums, tables read by blocks, the run's folder, saving outside of collectives)
// 920; probing plugins in processes of their own and checking who may have written their files
// 1,250; signals that end a rank at once, standard streams that are closed or full, folders left by
// killed launchers, and the blame for a rank that is cut off 230; reducing a step that differs to a
// case that can be run again 2,270; faults found by tests/chaos (ranks that hang at their end,
// undocumented exit codes, exit() of a plugin, a watchdog without memory) 90; one cut of a pipeline
// for ranks with uneven stages 30; what a table of runs says about ranks, and types of devices, 40;
// a room where a step is compiled, with the check of its graph after each pass, and the passes
// shown (runtime plan --passes, --dump-graph), 650; one Rewriter for all passes, and headers that
// break circles between files, 150; the rooms watch, tensor and train/asynchronous 40;
// types of layers that say which member each key sets 80; a Trainer that
// does not show its programs 40; what the runtime knew of plugins by their names as fields of the
// contract, which the host checks and chooses by, 150.
// The number is a ceiling: lower it when code goes, and say why when it has to rise.
constexpr size_t kCoreLines = 34500;

std::vector<SourceFile> all_files() {
  std::vector<SourceFile> files;
  for (const char* folder : {"plugins", "backends", "collectives", "runtime", "tests", "tools"}) {
    for (SourceFile& file : source_files(folder)) files.push_back(std::move(file));
  }
  return files;
}

TEST(Sizes, NoFileAboveSixHundredLines) {
  for (const SourceFile& file : all_files())
    EXPECT_LE(file.lines.size(), kFileLines) << file.path << " is two files";
}

TEST(Sizes, HeadersHoldOneConcept) {
  for (const SourceFile& file : all_files()) {
    if (!file.is_header()) continue;
    const size_t limit = kLongHeaders.contains(file.path) ? kLongHeaderLines : kHeaderLines;
    EXPECT_LE(file.code_lines(), limit) << file.path;
  }
}

TEST(Sizes, ExceptionsAreStillNeeded) {
  std::set<std::string> needed;
  for (const SourceFile& file : all_files()) {
    if (file.is_header() && file.code_lines() > kHeaderLines) needed.insert(file.path);
  }
  for (const std::string& path : kLongHeaders) EXPECT_TRUE(needed.contains(path)) << path;
}

TEST(Sizes, TheCoreIsSmall) {
  size_t lines = 0;
  for (const char* folder : {"runtime", "plugins/include", "plugins/sdk", "plugins/host"}) {
    for (const SourceFile& file : source_files(folder)) lines += file.code_lines();
  }
  RecordProperty("core_lines", static_cast<int>(lines));
  EXPECT_GT(lines, 5000u) << "the files were not found";
  EXPECT_LE(lines, kCoreLines);
}

}  // namespace
}  // namespace house
