// Reads the words and signs of a formula.
#ifndef RUNTIME_GRAPH_SCANNER_H_
#define RUNTIME_GRAPH_SCANNER_H_

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/error.h"

namespace runtime::graph {

// The names of the runtime's own open operations begin with it.
inline constexpr std::string_view kOwnOperation = "core.";

// A place in a text that moves forward. White space between words and signs is skipped. A text that
// does not go on as expected throws InternalError, because formulas are part of the program; in a
// formula of a plugin, "<plugin>.<name>", it is the plugin's fault, and a DeviceError.
class Scanner {
 public:
  Scanner(std::string_view subject, std::string_view text) : subject_(subject), text_(text) {}

  // The place: where reading goes on.
  size_t place() const { return at_; }
  void go_to(size_t place) { at_ = place; }

  bool at_end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ == text_.size();
  }
  // Whether the text goes on with `sign`; if so, it is read.
  bool accept(std::string_view sign) {
    if (at_end() || !text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  void expect(std::string_view sign) {
    if (!accept(sign)) fail("expected '" + std::string(sign) + "'");
  }
  // Reads items with commas between them, and `end` behind the last one.
  template <typename ReadItem>
  void read_list(std::string_view end, ReadItem&& read_item) {
    do {
      read_item();
    } while (accept(","));
    expect(end);
  }
  bool is_digit() { return !at_end() && std::isdigit(static_cast<unsigned char>(text_[at_])); }
  bool is_letter() { return !at_end() && is_word(text_[at_]) && !is_digit(); }

  std::string identifier() {
    if (!is_letter()) fail("expected a name");
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  double number() {
    if (!is_digit()) fail("expected a number");
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    at_ += static_cast<size_t>(end - rest.c_str());
    return value;
  }
  // Whether `sign` stands before the next ']'.
  bool has_before_bracket(char sign) const {
    const size_t found = text_.find_first_of(std::string{sign, ']'}, at_);
    return found != std::string_view::npos && text_[found] == sign;
  }

  [[noreturn]] void fail(const std::string& what) const {
    const size_t at = std::min(at_, text_.size());
    const std::string place = "at '" + std::string(text_.substr(at, 30)) + "'", op(subject_);
    const size_t dot = op.find('.');
    if (dot != op.npos && !op.starts_with(kOwnOperation))
      throw DeviceError("plugin '" + op.substr(0, dot) + "': the formula of its operation '" +
                        op.substr(dot + 1) + "' " + what + " " + place + ", character " +
                        std::to_string(at + 1) +
                        "; the plugin has to be corrected, see plugins/operations.md");
    throw InternalError("the formula of " + op + " " + what + " " + place);
  }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  std::string_view subject_, text_;
  size_t at_ = 0;
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_SCANNER_H_
