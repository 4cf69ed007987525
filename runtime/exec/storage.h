// Memory that outlives a step: parameters, state and packed weights by name, and the arena that
// holds temporaries.
#ifndef RUNTIME_EXEC_STORAGE_H_
#define RUNTIME_EXEC_STORAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

// The persistent buffers of one rank, shared by all of its programs. Not thread-safe.
class Storage {
 public:
  // `planned`: buffers get sizes, but no memory before materialise().
  explicit Storage(std::shared_ptr<plugins::host::Device> device, bool planned = false);

  // The buffer of that name: owned by this object, zero-filled when it is made, null while only
  // planned. Throws Error if it exists with another size.
  void* buffer(const std::string& name, uint64_t bytes);
  // Allocates all planned buffers. Throws plugins::host::Error if memory is short.
  void materialise();
  // Writes a buffer of buffer() at the first call for its name; later calls do nothing.
  void write_once(const std::string& name, const std::function<std::vector<std::byte>()>& contents);
  // An existing buffer and its size; null and 0 if there is none.
  void* find(const std::string& name) const;
  uint64_t bytes(const std::string& name) const;
  uint64_t total_bytes() const;

  // Increases whenever parameters were written. Packed copies keep the version from which they were
  // made.
  uint64_t parameter_version() const { return parameter_version_; }
  void parameters_changed() { ++parameter_version_; }
  uint64_t& packed_version(const std::string& name) { return packed_versions_[name]; }

  const std::shared_ptr<plugins::host::Device>& device() const { return device_; }

 private:
  struct Buffer {
    uint64_t bytes = 0;
    bool written = false;  // by write_once()
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

// One block of memory that several programs use in turn; as large as the largest of them needs.
class Arena {
 public:
  // `planned`: the arena gets a size, but no memory before materialise().
  explicit Arena(std::shared_ptr<plugins::host::Device> device, bool planned = false)
      : device_(std::move(device)), planned_(planned) {}
  // Grows the arena to at least `bytes`. Growing changes addresses and loses contents.
  void reserve(uint64_t bytes);
  // Allocates the memory of an arena that was made with `planned`.
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
