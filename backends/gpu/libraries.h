// The vendor's libraries that a build has.
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

// The key in [device.<plugin>] that has one.
inline constexpr char kLibrariesKey[] = "vendor_libraries";

// Throws RT_ERROR_INVALID_ARGUMENT if it is neither true nor false.
bool boolean_option(const rt_device_options& options, const char* key, bool otherwise);

// Asks one library after the other. Answers are kept: layers are alike, and some plans take a
// second to make.
class Libraries : public Vendor {
 public:
  using Open = std::function<std::unique_ptr<Vendor>()>;

  // A library that does not open leaves its operations to the own kernels. `without`: what is
  // without it, for a warning.
  void add(const Open& open, const char* without, const rt_host* host);
  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override;

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
