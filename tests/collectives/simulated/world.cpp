// Exchanges the data of simulated collectives through the host's key-value store, and reduces them.
#include "tests/collectives/simulated/world.h"

#include <algorithm>
#include <cstring>

#include "rt/sdk/operation.h"

namespace collectives::simulated {
namespace {

using rt::sdk::Error;

constexpr uint64_t kPiece = uint64_t{1} << 19;  // key-value stores accept values of up to 1 MiB
constexpr int64_t kLookNs = 20'000'000;         // nanoseconds between checks for an abort

template <typename T>
void reduce(const std::vector<Bytes>& parts, uint64_t begin, const rt_collective& call,
            std::byte* to) {
  for (uint64_t i = 0; i < call.count; ++i) {
    const auto at = [&](const Bytes& part) {
      T value;
      std::memcpy(&value, part.data() + (begin + i) * sizeof(T), sizeof(T));
      return value;
    };
    T result = at(parts[0]);
    for (size_t r = 1; r < parts.size(); ++r) {
      const T other = at(parts[r]);
      result = call.reduction == RT_MIN   ? std::min(result, other)
               : call.reduction == RT_MAX ? std::max(result, other)
                                          : static_cast<T>(result + other);
    }
    if (call.reduction == RT_AVERAGE)
      result = static_cast<T>(result / static_cast<T>(parts.size()));
    std::memcpy(to + i * sizeof(T), &result, sizeof(T));
  }
}

}  // namespace

void World::expect_alive() const {
  if (aborted_)
    throw Error(RT_ERROR_ABORTED, "the communicator was aborted", RT_SCOPE_COMMUNICATOR);
}

std::string World::name_of(const rt_collective& call) {
  if (call.kind != RT_SEND && call.kind != RT_RECEIVE) return "c" + std::to_string(calls_++);
  const auto pair =
      call.kind == RT_SEND ? std::pair(rank_, call.peer) : std::pair(call.peer, rank_);
  return "t" + std::to_string(pair.first) + "-" + std::to_string(pair.second) + "." +
         std::to_string(transfers_[pair]++);
}

void World::put(const std::string& key, const std::byte* data, uint64_t bytes) const {
  for (uint64_t piece = 0; piece == 0 || piece * kPiece < bytes; ++piece) {
    const std::string name = prefix_ + "/" + key + "." + std::to_string(piece);
    rt_error error{};
    error.size = sizeof(error);
    // The first byte is added because a value may not be empty.
    Bytes value(1);
    value.insert(value.end(), data + piece * kPiece, data + std::min(bytes, (piece + 1) * kPiece));
    if (host_.kv_set(host_.context, name.c_str(), value.data(), value.size(), &error) != RT_OK)
      throw Error(error.code, error.message, error.scope);
  }
}

Bytes World::take(const std::string& key, uint64_t bytes) const {
  Bytes all;
  for (uint64_t piece = 0; piece == 0 || piece * kPiece < bytes; ++piece) {
    const std::string name = prefix_ + "/" + key + "." + std::to_string(piece);
    Bytes value(kPiece + 1);
    uint64_t room = value.size();
    rt_error error{};
    error.size = sizeof(error);
    rt_status status = RT_ERROR_TIMEOUT;
    while (status == RT_ERROR_TIMEOUT) {
      expect_alive();
      room = value.size();
      status = host_.kv_get(host_.context, name.c_str(), value.data(), &room, kLookNs, &error);
    }
    if (status != RT_OK) throw Error(error.code, error.message, error.scope);
    all.insert(all.end(), value.begin() + 1, value.begin() + static_cast<std::ptrdiff_t>(room));
  }
  if (all.size() != bytes) throw Error(RT_ERROR_COMMUNICATION, "the ranks disagree on " + key);
  return all;
}

void World::carry_out(const std::string& name, const rt_collective& call, const std::byte* send,
                      std::byte* receive) const {
  const uint64_t bytes =
      call.kind == RT_BARRIER ? 0 : call.count * rt::sdk::dtype_bytes(call.dtype);
  const auto key = [&](int32_t rank) { return name + "/" + std::to_string(rank); };
  if (call.kind == RT_SEND) return put(key(rank_), send, bytes);
  const uint64_t sent =
      call.kind == RT_REDUCE_SCATTER ? bytes * static_cast<uint64_t>(size_) : bytes;
  const bool one = call.kind == RT_BROADCAST || call.kind == RT_RECEIVE;
  if (call.kind != RT_RECEIVE && (!one || rank_ == call.peer)) put(key(rank_), send, sent);
  std::vector<Bytes> parts;
  for (int32_t r = 0; r < size_; ++r) {
    if (!one || r == call.peer) parts.push_back(take(key(r), sent));
  }
  const uint64_t begin =
      call.kind == RT_REDUCE_SCATTER ? call.count * static_cast<uint64_t>(rank_) : 0;
  if (call.kind == RT_BARRIER || (call.kind == RT_REDUCE && rank_ != call.peer)) return;
  if (one || call.kind == RT_ALL_GATHER) {
    for (size_t i = 0; i < parts.size(); ++i)
      std::copy(parts[i].begin(), parts[i].end(), receive + i * bytes);
  } else if (call.dtype == RT_FLOAT64) {
    reduce<double>(parts, begin, call, receive);
  } else {
    reduce<float>(parts, begin, call, receive);
  }
}

std::unique_ptr<World> World::split(int32_t color, int32_t key) {
  const std::string name = "s" + std::to_string(calls_++);
  const int32_t own[] = {color, key};
  put(name + "/" + std::to_string(rank_), reinterpret_cast<const std::byte*>(own), sizeof(own));
  std::vector<std::pair<int32_t, int32_t>> team;  // pairs of key and rank
  for (int32_t r = 0; r < size_; ++r) {
    int32_t theirs[2];
    std::memcpy(theirs, take(name + "/" + std::to_string(r), sizeof(theirs)).data(),
                sizeof(theirs));
    if (theirs[0] == color) team.emplace_back(theirs[1], r);
  }
  if (color < 0) return nullptr;
  std::sort(team.begin(), team.end());
  const auto me = std::find(team.begin(), team.end(), std::pair(key, rank_)) - team.begin();
  return std::make_unique<World>(host_, prefix_ + "/" + name + "." + std::to_string(color),
                                 static_cast<int32_t>(me), static_cast<int32_t>(team.size()));
}

}  // namespace collectives::simulated
