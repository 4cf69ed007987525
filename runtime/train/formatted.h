// Text with numbers in it, for the lines that a person reads.
#ifndef RUNTIME_TRAIN_FORMATTED_H_
#define RUNTIME_TRAIN_FORMATTED_H_

#include <cstdio>
#include <string>

namespace runtime::train {

// Returns what std::snprintf() makes of the arguments, at most 255 bytes. Any thread.
template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof(text), format, arguments...);
  return text;
}

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_FORMATTED_H_
