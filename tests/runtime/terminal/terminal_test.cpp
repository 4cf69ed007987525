// Checks columns of terminals and pipes.
#include "runtime/terminal/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace runtime::terminal {
namespace {

// A terminal without a person, of so many columns.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    EXPECT_EQ(grantpt(owner_), 0);
    EXPECT_EQ(unlockpt(owner_), 0);
    file_ = open(ptsname(owner_), O_RDWR | O_NOCTTY);
    const winsize size{24, columns, 0, 0};
    EXPECT_EQ(ioctl(owner_, TIOCSWINSZ, &size), 0);
  }
  ~Terminal() {
    close(file_);
    close(owner_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  int file() const { return file_; }

 private:
  int owner_ = posix_openpt(O_RDWR | O_NOCTTY), file_ = -1;
};

class Terminals : public testing::Test {
 protected:
  void SetUp() override { unsetenv("COLUMNS"); }
  void TearDown() override { unsetenv("COLUMNS"); }
};

TEST_F(Terminals, SayHowManyColumnsTheyHave) {
  EXPECT_EQ(columns(Terminal(60).file()), 60);
  EXPECT_EQ(columns(Terminal(0).file()), 80) << "not known";
}

TEST_F(Terminals, TheVariableReplacesIt) {
  setenv("COLUMNS", "100", 1);
  EXPECT_EQ(columns(Terminal(60).file()), 100);
  for (const char* wrong : {"", "none", "-5", "0"}) {
    setenv("COLUMNS", wrong, 1);
    EXPECT_EQ(columns(Terminal(60).file()), 60) << wrong;
  }
}

TEST_F(Terminals, APipeHasNoLimit) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  setenv("COLUMNS", "100", 1);
  EXPECT_EQ(columns(ends[1]), 0);
  EXPECT_FALSE(can_redraw(ends[1]));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Terminals, ALineCanBeDrawnAgainIfTheyHaveAName) {
  const Terminal terminal(60);
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(can_redraw(terminal.file()));
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(can_redraw(terminal.file()));
  unsetenv("TERM");
  EXPECT_FALSE(can_redraw(terminal.file()));
}

}  // namespace
}  // namespace runtime::terminal
