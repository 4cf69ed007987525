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
// The most lines of code (without comments and blank lines) that runtime/, plugins/include,
// plugins/sdk and plugins/host may have together. Lower it when code goes, and say below why when
// it has to rise. The aim was about 12,000 lines, and it is missed. The lines were spent on:
//   13,600  training on one rank
//    7,400  rendezvous, launcher, watchdog, data-parallel and asynchronous training
//    4,900  language models with their texts, image folders, recomputation, tensor and pipeline
//           parallelism
//      500  ZeRO stages 2 and 3, plans of any mesh and the search for a mesh (1,100, of
//           which simpler code elsewhere saved half)
//      620  `verify` (the same steps on two devices)
//      350  16-bit activations
//      350  collectives on the device's streams
//      450  recorded steps, handling of missing memory, and utilisation
//       90  splitting post-operations that no candidate fuses, and candidates that fail while they
//           are measured
//      920  keeping results when disks, memory and outputs fail (atomic and synced writes,
//           checksums, tables read by blocks, the run's folder, saving outside of collectives)
//    1,250  probing plugins in processes of their own and checking who may have written their files
//      230  signals that end a rank at once, standard streams that are closed or full, folders left
//           by killed launchers, and the blame for a rank that is cut off
//    2,270  reducing a step that differs to a case that can be run again
//       90  faults found by tests/chaos (ranks that hang at their end, undocumented exit codes,
//           exit() of a plugin, a watchdog without memory)
//       30  one partition into pipeline stages for ranks with uneven stages
//       40  the ranks in a table of runs, and types of devices
//      650  a folder where a step is compiled, with the check of its graph after each pass, and the
//           passes shown (runtime plan --passes, --dump-graph)
//      150  one Rewriter for all passes, and headers that break circles between files
//       40  the folders watch, tensor and train/asynchronous
//       80  types of layers that say which member each key sets
//       40  a Trainer that does not show its programs
//      150  the parts of the C interface by which the runtime chooses plugins that it knew by name
constexpr size_t kCoreLines = 34510;

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
