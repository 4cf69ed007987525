// A status line says what a command that takes long does at the moment.
#ifndef RUNTIME_TERMINAL_STATUS_LINE_H_
#define RUNTIME_TERMINAL_STATUS_LINE_H_

#include <chrono>
#include <functional>
#include <iosfwd>
#include <string>

namespace runtime::terminal {

// How a StatusLine writes.
struct StatusStyle {
  bool redraw = false;                      // the line is drawn over the one before
  std::function<int()> columns = {};        // of a line at this moment; empty or 0: any number
  std::chrono::milliseconds pause{30'000};  // between two lines of progress

  // That of the standard error output: a line that is drawn ten times a second on a terminal that
  // can redraw, otherwise one line each half minute.
  static StatusStyle of_standard_error();
};

// One line that is drawn again and again on a terminal, and removed at the end. Elsewhere, a few
// lines. The stream must outlive it. One thread.
class StatusLine {
 public:
  // Writes to the standard error output.
  StatusLine();
  StatusLine(std::ostream& out, StatusStyle style);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // A part of the work begins: the text is always written.
  void begin(const std::string& text);
  // The work goes on: the text is left out if the last one is not older than the pause, unless the
  // terminal shows none.
  void progress(const std::string& text);
  // Writes a line that stays, above the one that is drawn.
  void print(const std::string& text);
  // Removes the line that is drawn, so that something else can be written.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  std::ostream& out_;
  const StatusStyle style_;
  Clock::time_point last_ = Clock::now();
  std::string text_ = {};
  bool drawn_ = false;
};

}  // namespace runtime::terminal

#endif  // RUNTIME_TERMINAL_STATUS_LINE_H_
