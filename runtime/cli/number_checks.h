// Checks of numbers on the command line, with messages that have the actual value and the expected
// one.
#ifndef RUNTIME_CLI_NUMBER_CHECKS_H_
#define RUNTIME_CLI_NUMBER_CHECKS_H_

#include <CLI/CLI.hpp>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

namespace runtime::cli {

// Returns a number as a person writes it: 1000000, not 1e+06.
template <class T>
std::string number_text(T number) {
  std::ostringstream text;
  text.precision(15);
  text << number;
  return text.str();
}

// Returns a check that accepts what CLI11 converts to a `T` that `accepts`; else its message says
// that it got the text and expected `expected`. `label` stands behind the option in --help.
template <class T, class Accepts>
CLI::Validator number_check(Accepts accepts, const std::string& expected,
                            const std::string& label) {
  const std::string kind = std::is_integral_v<T> ? "a whole number " : "a number ";
  return {[=](std::string& text) {
            T value;
            if (CLI::detail::lexical_cast(text, value) && accepts(value)) return std::string();
            return "got " + text + ", expected " + kind + expected;
          },
          label};
}

// The checks take the variable that the option sets, for its type only.

// Accepts what is above 0 and finite.
template <class T>
CLI::Validator positive(const T&) {
  return number_check<T>(
      [](T value) { return value > 0 && value <= std::numeric_limits<T>::max(); },
      std::is_integral_v<T> ? "of at least 1" : "above 0", "POSITIVE");
}

// Accepts what is at least 0 and finite.
template <class T>
CLI::Validator non_negative(const T&) {
  return number_check<T>(
      [](T value) { return value >= 0 && value <= std::numeric_limits<T>::max(); }, "of at least 0",
      "NONNEGATIVE");
}

// Accepts what is neither below `least` nor above `most`.
template <class T>
CLI::Validator between(const T&, std::type_identity_t<T> least, std::type_identity_t<T> most) {
  return number_check<T>([=](T value) { return value >= least && value <= most; },
                         "from " + number_text(least) + " to " + number_text(most),
                         "in [" + number_text(least) + " - " + number_text(most) + "]");
}

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_NUMBER_CHECKS_H_
