// Sentences for a person.
#ifndef RUNTIME_CLI_SAY_H_
#define RUNTIME_CLI_SAY_H_

#include <fmt/format.h>

#include <utility>

#include "runtime/terminal/text.h"

namespace runtime::cli {

// Prints on the standard output as fmt::print() does, with lines that fit the terminal.
template <typename... Arguments>
void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  terminal::print_folded(fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_SAY_H_
