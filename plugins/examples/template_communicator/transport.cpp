// Sends bytes as values of the key-value store, in pieces, and fetches those of others.
#include "transport.h"

#include <algorithm>
#include <utility>

#include "rt/sdk/error.h"

namespace template_communicator {

using rt::sdk::Error;

namespace {
constexpr size_t kPiece = size_t{512} << 10;  // bytes of one value of the store
}

Transport::Transport(const rt_host& host, std::string name, int32_t rank)
    : host_(host), name_(std::move(name)), rank_(rank) {}

std::string Transport::key(int32_t rank, const std::string& label, size_t piece) const {
  return name_ + "/" + label + "/" + std::to_string(rank) + "/" + std::to_string(piece);
}

void Transport::send(const std::string& label, const void* data, size_t bytes) const {
  for (size_t at = 0; at < bytes; at += kPiece) {
    rt_error error{};
    error.size = sizeof(error);
    const std::string name = key(rank_, label, at / kPiece);
    const rt_status status =
        host_.kv_set(host_.context, name.c_str(), static_cast<const std::byte*>(data) + at,
                     std::min(kPiece, bytes - at), &error);
    if (status != RT_OK) throw Error(RT_ERROR_COMMUNICATION, error.message, RT_SCOPE_COMMUNICATOR);
  }
}

std::optional<Bytes> Transport::receive(int32_t rank, const std::string& label, size_t bytes,
                                        std::chrono::nanoseconds patience) const {
  Bytes data(bytes);
  for (size_t at = 0; at < bytes; at += kPiece) {
    const size_t piece = std::min(kPiece, bytes - at);
    if (!fetch(rank, key(rank, label, at / kPiece), data.data() + at, piece, patience))
      return std::nullopt;
  }
  return data;
}

bool Transport::fetch(int32_t rank, const std::string& key, std::byte* to, size_t bytes,
                      std::chrono::nanoseconds patience) const {
  uint64_t received = bytes;
  rt_error error{};
  error.size = sizeof(error);
  const rt_status status =
      host_.kv_get(host_.context, key.c_str(), to, &received, patience.count(), &error);
  if (status == RT_ERROR_TIMEOUT) return false;
  if (status == RT_OK && received == bytes) return true;
  throw Error(RT_ERROR_COMMUNICATION,
              received == bytes
                  ? error.message
                  : rt::sdk::format("rank %d sent %llu bytes, expected %zu: the ranks called "
                                    "different collectives",
                                    rank, static_cast<unsigned long long>(received), bytes),
              RT_SCOPE_COMMUNICATOR);
}

}  // namespace template_communicator
