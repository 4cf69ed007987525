// Text with numbers in it, for the lines that a person reads.
#ifndef RUNTIME_TRAIN_FORMATTED_H_
#define RUNTIME_TRAIN_FORMATTED_H_

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>

namespace runtime::train {

// Returns the argument, but every NaN without a sign, which would be read as one that means
// something.
template <class Argument>
Argument without_sign_of_nan(Argument argument) {
  if constexpr (std::is_floating_point_v<Argument>) {
    if (std::isnan(argument)) return std::numeric_limits<Argument>::quiet_NaN();
  }
  return argument;
}

// Returns what std::snprintf() makes of the arguments, at most 255 bytes; NaN is "nan". Any thread.
template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof(text), format, without_sign_of_nan(arguments)...);
  return text;
}

// Returns how many of something there are in a second, as a whole number, but with three digits
// where that would hide how slow it is. Any thread.
inline std::string rate_text(double per_second) {
  return formatted(per_second < 100 ? "%.3g" : "%.0f", per_second);
}

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_FORMATTED_H_
