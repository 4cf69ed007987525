// Checks that decisions come back from disk, and that damaged or foreign files are no decisions.
#include "runtime/exec/decision_cache.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>

#include "tests/runtime/support/compile.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::exec {
namespace {

namespace fs = std::filesystem;

graph::LayoutDecision decision() {
  graph::Candidate a;
  a.algorithm = 3;
  a.ns = 1234.56789012345678;
  a.implementation = "jit \"quoted\" \\ name";
  a.input_layouts = {0, 0xF00000000000001Bu};
  a.input_bytes = {4096, 8192};
  a.output_layouts = {7};
  a.output_bytes = {1000};
  graph::Candidate b;
  b.algorithm = 1;
  return {a, b};
}

void expect_same(const graph::LayoutDecision& a, const graph::LayoutDecision& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].algorithm, b[i].algorithm);
    EXPECT_EQ(a[i].ns, b[i].ns);
    EXPECT_EQ(a[i].implementation, b[i].implementation);
    EXPECT_EQ(a[i].input_layouts, b[i].input_layouts);
    EXPECT_EQ(a[i].input_bytes, b[i].input_bytes);
    EXPECT_EQ(a[i].output_layouts, b[i].output_layouts);
    EXPECT_EQ(a[i].output_bytes, b[i].output_bytes);
  }
}

class DecisionCacheTest : public testing::Test {
 protected:
  // The cache of a run that begins, whose book is empty.
  DecisionCache cache(const std::string& key = "key") {
    return DecisionCache(folder_.path() / "new", key, books_.emplace_back());
  }
  fs::path only_file() const { return fs::directory_iterator(folder_.path() / "new")->path(); }
  test::TemporaryFolder folder_;
  std::deque<DecisionBook> books_;
};

TEST_F(DecisionCacheTest, RoundTrip) {
  EXPECT_FALSE(cache().read(2));
  cache().write(decision());
  const auto read = cache().read(2);
  ASSERT_TRUE(read);
  expect_same(*read, decision());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path() / "new"), fs::directory_iterator()),
            1);
}

TEST_F(DecisionCacheTest, AnotherKeyOrLengthIsAnotherDecision) {
  cache().write(decision());
  EXPECT_FALSE(cache("other").read(2));
  EXPECT_FALSE(cache().read(3));
  EXPECT_FALSE(cache().read(1));
}

TEST_F(DecisionCacheTest, AFileOfAnotherKeyUnderThisNameIsRefused) {
  cache().write(decision());
  const fs::path here = only_file();
  cache("other").write(decision());
  for (const auto& entry : fs::directory_iterator(folder_.path() / "new")) {
    if (entry.path() != here)
      fs::copy_file(entry.path(), here, fs::copy_options::overwrite_existing);
  }
  EXPECT_FALSE(cache().read(2));
}

TEST_F(DecisionCacheTest, ACutFileIsNoDecision) {
  cache().write(decision());
  const std::string whole = test::read_text(only_file());
  for (size_t size = 0; size + 1 < whole.size(); ++size) {  // whole but for the last newline
    std::ofstream(only_file(), std::ios::trunc) << whole.substr(0, size);
    EXPECT_FALSE(cache().read(2)) << "cut to " << size << " of " << whole.size();
  }
}

TEST_F(DecisionCacheTest, NonsenseIsNoDecision) {
  cache().write(decision());
  const std::string whole = test::read_text(only_file());
  const size_t second_line = whole.find('\n', whole.find('\n') + 1) + 1;
  for (const char* line : {"x\n", "3 1 \"a\" 999999999999 1\n", "3 1 \"a\" 2 0\n", "-\n\n\n"}) {
    std::ofstream(only_file(), std::ios::trunc) << whole.substr(0, second_line) << line << line;
    EXPECT_FALSE(cache().read(2)) << line;
  }
}

TEST_F(DecisionCacheTest, WithoutFolderTheBookKeepsDecisions) {
  DecisionBook book, other;
  DecisionCache({}, "key", book).write(decision());
  const auto read = DecisionCache({}, "key", book).read(2);
  ASSERT_TRUE(read);
  expect_same(*read, decision());
  EXPECT_FALSE(DecisionCache({}, "other", book).read(2));
  EXPECT_FALSE(DecisionCache({}, "key", other).read(2));
}

// A run that goes on from a checkpoint brings a book, and the machine may have decided otherwise.
TEST_F(DecisionCacheTest, TheBookIsUsedBeforeTheDisk) {
  auto other = decision();
  other[0].algorithm += 1;
  cache().write(other);
  DecisionBook book;
  DecisionCache({}, "key", book).write(decision());
  const auto read = DecisionCache(folder_.path() / "new", "key", book).read(2);
  ASSERT_TRUE(read);
  expect_same(*read, decision());
}

TEST_F(DecisionCacheTest, WhatIsReadFromTheDiskIsPutIntoTheBook) {
  cache().write(decision());
  ASSERT_TRUE(cache().read(2));
  EXPECT_EQ(books_.back().all(), books_.front().all());
  ASSERT_EQ(books_.back().all().size(), 1u);
}

TEST_F(DecisionCacheTest, AFolderThatCannotBeWrittenIsNoError) {
  const std::string file = folder_.write("file", "");
  DecisionCache(fs::path(file) / "below", "key", books_.emplace_back()).write(decision());
  EXPECT_FALSE(DecisionCache(fs::path(file) / "below", "key", books_.emplace_back()).read(2));
}

// A file whose content was changed by hand is ignored and the device measured again: too small a
// buffer would be overrun.
TEST_F(DecisionCacheTest, ADecisionThatTheDeviceDoesNotOfferIsMadeAgain) {
  graph::Graph g;
  graph::Build build(g);
  const graph::ValueId x = test::add_value(g, "x", graph::ValueKind::kInput, {64, 64});
  const graph::ValueId y = build.scale(build.scale(x, 2), 3);
  g.value(y).kind = graph::ValueKind::kOutput;
  const auto device = test::open_device("reference");
  Storage storage(device);
  Arena arena(device);
  const auto new_run = [&] {
    return CompileOptions{{Tune::kQuick, false, folder_.path() / "new"}};
  };
  test::compile(g, device, storage, arena, new_run());
  std::string text = test::read_text(only_file());
  for (size_t at; (at = text.find("32768")) != std::string::npos;) text.replace(at, 5, "64");
  std::ofstream(only_file(), std::ios::trunc) << text;
  test::compile(g, device, storage, arena, new_run());
  EXPECT_NE(test::read_text(only_file()), text);
}

TEST_F(DecisionCacheTest, TheKeyKnowsShapesAndTuning) {
  const auto key = [](int64_t rows, const std::string& tune) {
    graph::Graph g;
    graph::Build build(g);
    build.scale(test::add_value(g, "x", graph::ValueKind::kInput, {rows, 4}), 2);
    return decision_key(*test::open_device("reference"), g, tune);
  };
  EXPECT_EQ(key(4, "quick"), key(4, "quick"));
  EXPECT_NE(key(4, "quick"), key(5, "quick"));
  EXPECT_NE(key(4, "quick"), key(4, "full"));
}

// The key depends on options, because they may limit the instruction set or disable algorithms.
TEST_F(DecisionCacheTest, TheKeyKnowsTheOptionsOfTheDevice) {
  const auto key = [](std::map<std::string, std::string> options) {
    return decision_key(*test::open_device("simulated", std::move(options)), graph::Graph(), "");
  };
  EXPECT_EQ(key({{"seed", "1"}}), key({}));  // a default value, given explicitly
  EXPECT_NE(key({{"seed", "2"}}), key({}));
}

TEST_F(DecisionCacheTest, TheKeyKnowsTheFallbackDevice) {
  const auto device = test::open_device("simulated"), fallback = test::open_device("reference");
  const auto key = [&](const plugins::host::Device* beside) {
    return decision_key(*device, graph::Graph(), "", beside);
  };
  EXPECT_NE(key(fallback.get()), key(nullptr));
  EXPECT_NE(key(fallback.get()), key(device.get()));
}

}  // namespace
}  // namespace runtime::exec
