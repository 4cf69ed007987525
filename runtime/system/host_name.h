// The name of this machine.
#ifndef RUNTIME_SYSTEM_HOST_NAME_H_
#define RUNTIME_SYSTEM_HOST_NAME_H_

#include <unistd.h>

#include <array>
#include <string>

namespace runtime::system {

// As gethostname() gives it; "" if it gives none.
inline std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_HOST_NAME_H_
