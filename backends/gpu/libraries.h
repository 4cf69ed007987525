// The libraries of the vendor that a build has.
#ifndef BACKENDS_GPU_LIBRARIES_H_
#define BACKENDS_GPU_LIBRARIES_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gpu/vendor.h"

namespace backends::gpu {

// The key in [device.<plugin>] that enables the libraries, for plugins that have some.
inline constexpr char kLibrariesKey[] = "vendor_libraries";

// The value of an option, or `otherwise` if it is not given. Throws RT_ERROR_INVALID_ARGUMENT if it
// is neither true nor false.
bool boolean_option(const rt_device_options& options, const char* key, bool otherwise);

// Asks one library after another. Answers are kept, because many layers are alike and some plans
// take a second to make. Any thread may call kernels().
class Libraries : public Vendor {
 public:
  using Open = std::function<std::unique_ptr<Vendor>()>;

  // Opens a library and adds it to the list. If it does not open, our own kernels serve its
  // operations, and `host` (may be null) gets a warning: `without` names these operations, and the
  // error's text follows.
  void add(const Open& open, const char* without, const rt_host* host);
  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override;
  void forget(GPU(Stream_t) stream) override;

 private:
  struct Answer {
    std::vector<Kernel> kernels;
    std::string without;
  };
  Answer ask(const Operation& op) const;

  std::vector<std::unique_ptr<Vendor>> libraries_;
  std::mutex mutex_;
  std::map<std::string, Answer> answers_;  // guarded by mutex_
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_LIBRARIES_H_
