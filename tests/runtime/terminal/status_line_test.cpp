// Checks drawing, pauses and lines of the status line.
#include "runtime/terminal/status_line.h"

#include <gtest/gtest.h>

#include <sstream>

namespace runtime::terminal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

const StatusStyle kTerminal{true, [] { return 12; }, milliseconds(0)};

TEST(StatusLine, IsDrawnAgainAndRemoved) {
  std::ostringstream out;
  {
    StatusLine line(out, kTerminal);
    line.begin("step 1");
    line.progress("step 2, loss 0.5");
  }
  EXPECT_EQ(out.str(), "\rstep 1\x1b[K\rstep 2, l..\x1b[K\r\x1b[K") << "one column stays free";
}

TEST(StatusLine, StandsBelowWhatIsPrinted) {
  std::ostringstream out;
  StatusLine line(out, kTerminal);
  line.print("before");
  line.begin("step 1");
  line.print("a note");
  EXPECT_EQ(out.str(), "before\n\rstep 1\x1b[K\r\x1b[Ka note\n\rstep 1\x1b[K");
  line.clear();
  line.print("after all of that");
  EXPECT_TRUE(out.str().ends_with("\r\x1b[Kafter all of\n  that\n"));
}

TEST(StatusLine, IsDrawnAtMostOnceInAPause) {
  std::ostringstream out;
  StatusLine line(out, {true, {}, hours(1)});
  line.progress("step 1");
  line.progress("step 2");
  EXPECT_EQ(out.str(), "\rstep 1\x1b[K");
}

TEST(StatusLine, IsAFewWholeLinesElsewhere) {
  std::ostringstream out;
  {
    StatusLine line(out, {false, {}, hours(1)});
    line.begin("round 1");
    line.progress("step 1");
    line.begin("round 2");
    line.clear();
  }
  EXPECT_EQ(out.str(), "round 1\nround 2\n");
  StatusLine often(out, {false, {}, milliseconds(0)});
  often.progress("step 1");
  EXPECT_EQ(out.str(), "round 1\nround 2\nstep 1\n");
}

}  // namespace
}  // namespace runtime::terminal
