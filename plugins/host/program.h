// The file of the running program.
#ifndef PLUGINS_HOST_PROGRAM_H_
#define PLUGINS_HOST_PROGRAM_H_

#include <sys/auxv.h>

#include <filesystem>
#include <system_error>

namespace plugins::host {

// Returns the absolute path of the running program's file, also where /proc is not mounted; then
// the working folder must still be that of the start. Returns an empty path if the system does not
// tell.
inline std::filesystem::path program_path() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return path;
  // The name by which the kernel has started the program, which may be relative or a link.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel gives addresses as numbers
  const auto* name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (name == nullptr) return {};
  path = std::filesystem::canonical(name, error);
  return error ? std::filesystem::path() : path;
}

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PROGRAM_H_
