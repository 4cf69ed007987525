// Memory that outlives a step: parameters, state and packed weights by name, and the arena of
// temporaries.
#ifndef RUNTIME_EXEC_STORAGE_H_
#define RUNTIME_EXEC_STORAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "plugins/host/device.h"

namespace runtime::exec {

// Persistent buffers of one rank, shared by all of its programs. Not thread-safe.
class Storage {
 public:
  // `planned`: buffers have sizes, but no memory until materialise().
  explicit Storage(std::shared_ptr<plugins::host::Device> device, bool planned = false);

  // The buffer of that name, zero-filled when it is new; null while it is planned. Throws Error if
  // it exists with another size.
  void* buffer(const std::string& name, uint64_t bytes);
  void materialise();
  // Null and 0 if there is none.
  void* find(const std::string& name) const;
  uint64_t bytes(const std::string& name) const;
  uint64_t total_bytes() const;

  // Grows whenever parameters were written; packed copies remember the version that they were made
  // from.
  uint64_t parameter_version() const { return parameter_version_; }
  void parameters_changed() { ++parameter_version_; }
  uint64_t& packed_version(const std::string& name) { return packed_versions_[name]; }

  const std::shared_ptr<plugins::host::Device>& device() const { return device_; }

 private:
  struct Buffer {
    uint64_t bytes = 0;
    plugins::host::Memory memory;
  };
  void allocate(Buffer& buffer);

  std::shared_ptr<plugins::host::Device> device_;
  plugins::host::Stream stream_;
  bool planned_;
  std::map<std::string, Buffer> buffers_;
  std::map<std::string, uint64_t> packed_versions_;
  uint64_t parameter_version_ = 1;
};

// One block of memory that several programs use in turn, as large as the largest needs.
class Arena {
 public:
  // `planned`: it has a size, but no memory until materialise().
  explicit Arena(std::shared_ptr<plugins::host::Device> device, bool planned = false)
      : device_(std::move(device)), planned_(planned) {}
  // Makes it at least so large. Contents are lost when it grows, and addresses change.
  void reserve(uint64_t bytes);
  void materialise();
  std::byte* data() const { return static_cast<std::byte*>(memory_.data()); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<plugins::host::Device> device_;
  bool planned_;
  uint64_t bytes_ = 0;
  plugins::host::Memory memory_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_STORAGE_H_
