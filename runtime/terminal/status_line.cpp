// Draws the line again at most a few times a second, and clears it before other output.
#include "runtime/terminal/status_line.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "runtime/terminal/terminal.h"
#include "runtime/terminal/text.h"

namespace runtime::terminal {

StatusStyle StatusStyle::of_standard_error() {
  StatusStyle style;
  style.redraw = can_redraw(STDERR_FILENO);
  style.columns = [] { return terminal::columns(STDERR_FILENO); };
  if (style.redraw) style.pause = std::chrono::milliseconds(100);
  return style;
}

StatusLine::StatusLine() : StatusLine(std::cerr, StatusStyle::of_standard_error()) {}

StatusLine::StatusLine(std::ostream& out, StatusStyle style)
    : out_(out), style_(std::move(style)) {}

void StatusLine::begin(const std::string& text) {
  text_ = text;
  draw();
}

void StatusLine::progress(const std::string& text) {
  const bool shown = drawn_ || !style_.redraw;
  if (shown && Clock::now() - last_ < style_.pause) return;
  begin(text);
}

void StatusLine::print(const std::string& text) {
  const bool again = drawn_;
  clear();
  out_ << folded(text, style_.columns ? style_.columns() : 0) << std::endl;
  if (again) draw();
}

// The last column stays free: some terminals begin a new line when it is written.
void StatusLine::draw() {
  last_ = Clock::now();
  const int columns = style_.columns ? style_.columns() : 0;
  if (!style_.redraw) {
    out_ << folded(text_, columns) << std::endl;
    return;
  }
  out_ << '\r'
       << (columns > 0 ? shortened(text_, static_cast<size_t>(std::max(columns - 1, 1))) : text_)
       << "\x1b[K" << std::flush;
  drawn_ = true;
}

void StatusLine::clear() {
  if (drawn_) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace runtime::terminal
