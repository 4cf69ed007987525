// The exception that the host side throws when a plugin refuses, fails or cannot be loaded.
#ifndef PLUGINS_HOST_ERROR_H_
#define PLUGINS_HOST_ERROR_H_

#include <stdexcept>
#include <string>

#include "rt/common.h"

namespace plugins::host {

// `code` is RT_ERROR_*; `scope` is RT_SCOPE_*, the object that cannot be used any more.
class Error : public std::runtime_error {
 public:
  Error(rt_status code, const std::string& message, int32_t scope = RT_SCOPE_PROCESS)
      : std::runtime_error(message), code_(code), scope_(scope) {}
  // The error of a communicator that names a rank, numbered as before any split.
  static Error of_rank(rt_status code, const std::string& message, int32_t scope, int rank) {
    Error error(code, message, scope);
    error.rank_ = rank;
    return error;
  }
  rt_status code() const { return code_; }
  int32_t scope() const { return scope_; }
  // The rank that a communicator names: with RT_ERROR_TIMEOUT it does not answer, otherwise its
  // connection has broken without a word. -1: none.
  int rank() const { return rank_; }
  // Whether this is the failure of a collective, which may be a mere consequence of the end of
  // another rank.
  bool is_of_communication() const {
    return code_ == RT_ERROR_COMMUNICATION || code_ == RT_ERROR_TIMEOUT ||
           code_ == RT_ERROR_ABORTED;
  }

 private:
  rt_status code_;
  int32_t scope_;
  int rank_ = -1;
};

// An rt_error that is ready to be passed to a plugin.
rt_error make_error();

// The name of a status: "RT_ERROR_TIMEOUT", or "status 77" for an unknown code.
std::string status_name(rt_status status);

// Throws Error unless `status` is RT_OK. `what` says what was tried: "cpu:0: allocate".
void check(rt_status status, const rt_error& error, const std::string& what);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_ERROR_H_
