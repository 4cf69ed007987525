// How bytes get from one rank to another. REPLACE THIS FILE by your network: everything else of the
// template works on these three functions.
#ifndef TRANSPORT_H_
#define TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rt/plugin.h"

namespace template_communicator {

using Bytes = std::vector<std::byte>;

// Moves bytes through the key-value store of the host, in which all ranks of a job meet. The store
// is made for the rendezvous: it takes values of up to 1 MiB and keeps them, so that this transport
// is slow and its memory grows with every collective. Any thread.
class Transport {
 public:
  // `name` is the same on all ranks of one communicator, and unique to it. Throws Error if the host
  // has no store.
  Transport(const rt_host& host, std::string name, int32_t rank);

  const std::string& name() const { return name_; }
  const rt_host& host() const { return host_; }

  // Sends bytes under a label that this rank has not used before. Does not wait for the receiver.
  void send(const std::string& label, const void* data, size_t bytes) const;

  // Receives what `rank` has sent or will send under the label. Returns nullopt if it has not
  // arrived after `patience`.
  std::optional<Bytes> receive(int32_t rank, const std::string& label, size_t bytes,
                               std::chrono::nanoseconds patience) const;

 private:
  std::string key(int32_t rank, const std::string& label, size_t piece) const;
  // Reads one value into `to`. Returns false if it is not there after `patience`.
  bool fetch(int32_t rank, const std::string& key, std::byte* to, size_t bytes,
             std::chrono::nanoseconds patience) const;

  const rt_host& host_;
  std::string name_;
  int32_t rank_;
};

}  // namespace template_communicator

#endif  // TRANSPORT_H_
