// How large things may be.
#include <gtest/gtest.h>

#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

constexpr size_t kFileLines = 600;
constexpr size_t kHeaderLines = 150;
// One list or one table each, which two files would only tear apart.
const std::set<std::string> kLongHeaders = {
    "backends/cpu/onednn.h",           // RAII handles of one library
    "plugins/host/device.h",           // the handles over one table of the contract
    "plugins/include/rt/kernel.h",     // one table of the contract
    "plugins/sdk/rt/sdk/operation.h",  // header-only by design
    "runtime/config/config.h",         // one struct for each section
};
constexpr size_t kLongHeaderLines = 200;
// Lines of code (comments and blank lines not counted) of runtime/ and of the contract with its
// host side. The aim was about 12,000 and is missed: one rank took 13,600, rendezvous, launching
// ranks, watching over them, the data-parallel and the asynchronous training 7,400, language models
// with their texts, image folders, recomputation, tensor and pipeline parallelism another 4,900,
// ZeRO's stages 2 and 3, plans of any mesh and the search among them another 500 (1,100, of which
// simpler code elsewhere gave back half), steps beside each other on two devices (`verify`) 620,
// 16-bit activations 350, collectives on the device's streams 350, steps that are recorded, what to
// do for want of memory and utilisation 450, post-operations taken apart again where no candidate
// fuses them, and candidates that fail while they are measured, 90, what keeps work when disks,
// memory and outputs fail (files written whole or through, checksums, tables read by blocks, the
// run's folder, saving outside of collectives) 920, plugins looked at from outside, in processes of
// their own, and the trust in their files 1,250, signals that end a rank at once, standard streams
// that are closed or full, folders that killed launchers leave and the blame for a rank that is cut
// off 230, from a step that differs to a case that anybody can run again 2,270, what random faults
// have shown (tests/chaos: ranks that hang at their end, codes that nobody documents, exit() of a
// plugin, a watchdog without memory) 90, one cut of a pipeline for ranks with uneven parts 30. This
// is a ceiling on the way back: lower it when code goes, and say why when it has to rise.
constexpr size_t kCoreLines = 33360;

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
    EXPECT_LE(file.lines.size(), limit) << file.path;
  }
}

TEST(Sizes, ExceptionsAreStillNeeded) {
  std::set<std::string> needed;
  for (const SourceFile& file : all_files()) {
    if (file.is_header() && file.lines.size() > kHeaderLines) needed.insert(file.path);
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
