// Replaces every function of a plugin's tables by one that misbehaves if the environment says so.
//
// RUNTIME_MISBEHAVE is "<how>:<table>.<function>", for example "throw:device.copy". How:
//   throw    lets an exception out
//   status   answers with a status that does not exist, and no message
//   nothing  does nothing and answers RT_OK
//   abort    ends the process with SIGABRT
//   exit     ends the process with exit code 0
//   hang     never returns
// RUNTIME_MISBEHAVE_AFTER is the number of calls that go well before; 0 if unset.
#ifndef TESTS_PLUGINS_MISBEHAVING_MISBEHAVE_H_
#define TESTS_PLUGINS_MISBEHAVING_MISBEHAVE_H_

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>

#include "rt/common.h"

namespace misbehaving {

// The table of the good plugin, of which there is one in the process.
template <typename Api>
inline const Api* good = nullptr;

template <auto member>
inline const char* name = nullptr;  // "device.copy"

inline std::string how() {
  const char* const text = std::getenv("RUNTIME_MISBEHAVE");
  return text == nullptr ? "" : text;
}

// Whether this call of the function is the one that misbehaves. All later ones do, too.
inline bool misbehaves(const char* function) {
  static std::atomic<int> calls{0};
  const std::string asked = how();
  if (asked.substr(asked.find(':') + 1) != function) return false;
  const char* const after = std::getenv("RUNTIME_MISBEHAVE_AFTER");
  return calls++ >= (after == nullptr ? 0 : std::atoi(after));
}

// Does what the environment asks for, and returns what the function answers.
template <typename Result>
Result act() {
  const std::string asked = how();
  const std::string word = asked.substr(0, asked.find(':'));
  if (word == "throw") throw std::runtime_error("thrown by a plugin that misbehaves");
  if (word == "abort") std::abort();
  if (word == "exit") std::exit(0);
  while (word == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
  if constexpr (std::is_same_v<Result, rt_status>) {
    return word == "status" ? 4711 : RT_OK;
  } else if constexpr (!std::is_void_v<Result>) {
    return Result{};
  }
}

// Puts a function in the place of `member` that misbehaves when it is asked to.
template <auto member, typename Api, typename Result, typename... Arguments>
void wrap(Api& api, Result (*Api::*)(Arguments...), const char* function) {
  name<member> = function;
  api.*member = [](Arguments... arguments) -> Result {
    if (misbehaves(name<member>)) return act<Result>();
    return (good<Api>->*member)(arguments...);
  };
}

}  // namespace misbehaving

// A member cannot be named in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define MISBEHAVE(api, table, function)                                   \
  ::misbehaving::wrap<&std::remove_reference_t<decltype(api)>::function>( \
      api, &std::remove_reference_t<decltype(api)>::function, table "." #function)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // TESTS_PLUGINS_MISBEHAVING_MISBEHAVE_H_
