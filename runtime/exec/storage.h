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

  // Makes the buffer of that name, unless it exists: owned by this object, zero-filled, without
  // memory while only planned. `cuts`: the ascending bytes at which its memory may end and go on
  // elsewhere (graph::Value::cuts). Throws Error if it exists with another size or other cuts, or
  // if the device gives no buffer as large as one of the pieces.
  void buffer(const std::string& name, uint64_t bytes, const std::vector<uint64_t>& cuts = {});
  // Allocates all planned buffers. Throws plugins::host::Error if memory is short.
  void materialise();
  // Writes a buffer of buffer() at the first call for its name; later calls do nothing.
  void write_once(const std::string& name, const std::function<std::vector<std::byte>()>& contents);
  // The address of a byte of an existing buffer, from which on the memory is contiguous up to the
  // next cut; the size of the buffer. Null and 0 if there is none, or no memory.
  std::byte* find(const std::string& name, uint64_t offset = 0) const;
  uint64_t bytes(const std::string& name) const;
  // The bytes from `offset` on that are contiguous.
  uint64_t contiguous(const std::string& name, uint64_t offset) const;
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
    bool written = false;          // by write_once()
    std::vector<uint64_t> begins;  // of its pieces, ascending from 0
    std::vector<plugins::host::Memory> pieces;

    size_t piece_of(uint64_t offset) const;
    uint64_t end_of(size_t piece) const;
  };
  void expect_pieces(const std::string& name, const Buffer& buffer) const;
  void allocate(Buffer& buffer);

  std::shared_ptr<plugins::host::Device> device_;
  plugins::host::Stream stream_;
  bool planned_;
  std::map<std::string, Buffer> buffers_;
  std::map<std::string, uint64_t> packed_versions_;
  uint64_t parameter_version_ = 1;
};

// Copy bytes of a buffer, wherever it is cut, from and to `begin` on; they wait for the stream.
std::vector<std::byte> read_bytes(const Storage& storage, plugins::host::Stream& stream,
                                  const std::string& name, uint64_t begin, uint64_t bytes);
void write_bytes(const Storage& storage, plugins::host::Stream& stream, const std::string& name,
                 uint64_t begin, const std::vector<std::byte>& bytes);
// The same for memory that is contiguous.
std::vector<std::byte> read_memory(plugins::host::Stream& stream, const void* address,
                                   uint64_t bytes);
void write_memory(plugins::host::Stream& stream, void* address,
                  const std::vector<std::byte>& bytes);

// Memory that several programs use in turn; as large as the largest of them needs. It consists of
// pieces of which each but the last is as large as the device's largest buffer.
class Arena {
 public:
  // `planned`: the arena gets a size, but no memory before materialise(). `kind`: RT_MEMORY_*.
  explicit Arena(std::shared_ptr<plugins::host::Device> device, bool planned = false,
                 int32_t kind = RT_MEMORY_DEVICE)
      : device_(std::move(device)), planned_(planned), kind_(kind) {}
  // Grows the arena to at least `bytes`. Growing changes addresses and loses contents.
  void reserve(uint64_t bytes);
  // Allocates the memory of an arena that was made with `planned`.
  void materialise();
  // The address of a byte; null while the arena is only planned.
  std::byte* at(uint64_t offset) const;
  uint64_t bytes() const { return bytes_; }
  // The bytes of a piece: what lies in one is contiguous. A multiple of the device's alignment, or
  // UINT64_MAX if the device has no largest buffer.
  uint64_t piece() const { return piece_of(*device_); }
  static uint64_t piece_of(const plugins::host::Device& device);
  // Changes with the addresses.
  uint64_t version() const { return version_; }

 private:
  void allocate();

  std::shared_ptr<plugins::host::Device> device_;
  bool planned_;
  int32_t kind_;
  uint64_t bytes_ = 0, version_ = 0;
  std::vector<plugins::host::Memory> pieces_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_STORAGE_H_
