// Checks that a segment is shared with the process that has its card, and with no other.
#include "collectives/shared_memory/segment.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

namespace collectives::shared_memory {
namespace {

constexpr std::size_t kBytes = 1 << 16;

TEST(SegmentTest, IsZeroAndAlignedAtTheBeginning) {
  const Segment segment = Segment::make(kBytes);
  ASSERT_TRUE(segment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(segment.data()) % 64, 0U);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(segment.data()[i], std::byte{0});
}

TEST(SegmentTest, AnotherProcessSeesWhatThisOneWrites) {
  const Segment segment = Segment::make(kBytes);
  ASSERT_TRUE(segment);
  std::strcpy(reinterpret_cast<char*>(segment.data()), "written by the parent");
  const pid_t child = ::fork();
  if (child == 0) {
    const Segment opened = Segment::open(segment.card(), kBytes);
    const bool same = opened && std::strcmp(reinterpret_cast<const char*>(opened.data()),
                                            "written by the parent") == 0;
    if (same) std::strcpy(reinterpret_cast<char*>(opened.data()) + 100, "written by the child");
    ::_exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(segment.data()) + 100, "written by the child");
}

TEST(SegmentTest, AnEmptyCardOpensNothing) {
  EXPECT_FALSE(Segment::open(Segment().card(), kBytes));
  EXPECT_FALSE(Segment());
}

TEST(SegmentTest, ACardOfAnotherMachineOpensNothing) {
  const Segment segment = Segment::make(kBytes);
  SegmentCard card = segment.card();
  ++card.machine;
  EXPECT_FALSE(Segment::open(card, kBytes));
}

// The file of that number may be another one by then.
TEST(SegmentTest, AWrongTokenOrSizeOpensNothing) {
  const Segment segment = Segment::make(kBytes);
  SegmentCard token = segment.card(), size = segment.card(), file = segment.card();
  ++token.token;
  ++size.bytes;
  file.file = STDIN_FILENO;
  EXPECT_FALSE(Segment::open(token, kBytes));
  EXPECT_FALSE(Segment::open(size, kBytes));
  EXPECT_FALSE(Segment::open(file, kBytes));
  EXPECT_TRUE(Segment::open(segment.card(), kBytes));
}

TEST(SegmentTest, StaysWhenItsFileIsClosed) {
  Segment segment = Segment::make(kBytes);
  const SegmentCard card = segment.card();
  const Segment opened = Segment::open(card, kBytes);
  segment.close_file();
  EXPECT_FALSE(Segment::open(card, kBytes));
  segment.data()[7] = std::byte{9};
  EXPECT_EQ(opened.data()[7], std::byte{9});
}

TEST(SegmentTest, ACardOfAProcessThatHasEndedOpensNothing) {
  const Segment segment = Segment::make(kBytes);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  SegmentCard card = segment.card();
  card.process = child;
  EXPECT_FALSE(Segment::open(card, kBytes));
}

// A layout of another version of the library must not be used.
TEST(SegmentTest, IsOpenedOnlyWithItsSize) {
  const Segment segment = Segment::make(kBytes);
  EXPECT_FALSE(Segment::open(segment.card(), kBytes - 128));
  EXPECT_FALSE(Segment::open(segment.card(), kBytes + 128));
}

// Without the check the process would end by a signal.
TEST(SegmentTest, IsNotMadeWhereFilesMayNotBeSoLarge) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{kBytes / 2, kBytes / 2};
    ::setrlimit(RLIMIT_FSIZE, &most);
    ::_exit(Segment::make(kBytes) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SegmentTest, MovesToAnotherObject) {
  Segment segment = Segment::make(kBytes);
  segment.data()[0] = std::byte{5};
  Segment moved = std::move(segment);
  EXPECT_EQ(moved.data()[0], std::byte{5});
}

}  // namespace
}  // namespace collectives::shared_memory
