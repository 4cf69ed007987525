// Encodes scalars as protocol buffers in TFRecord frames.
#include "runtime/session/reports/tensorboard.h"

#include <array>
#include <bit>

namespace runtime::session::tensorboard {

namespace {

// Kinds of fields in protocol buffers.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Little-endian, whatever the machine is.
template <typename T>
std::string fixed(T bits) {
  std::string out;
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(bits >> (8 * i));
  return out;
}

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string key(uint64_t field, Wire wire) { return varint(field << 3 | wire); }
std::string text(uint64_t field, const std::string& bytes) {
  return key(field, kBytes) + varint(bytes.size()) + bytes;
}

// CRC-32C of data that may contain CRCs itself.
uint32_t masked(const std::string& bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string record(const std::string& data) {
  const std::string length = fixed(uint64_t{data.size()});
  return length + fixed(masked(length)) + data + fixed(masked(data));
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
// A number that is 0 is left out.
std::string event(double time, int64_t step, const std::string& what) {
  const std::string number = step == 0 ? "" : key(2, kVarint) + varint(static_cast<uint64_t>(step));
  return record(key(1, kFixed64) + fixed(std::bit_cast<uint64_t>(time)) + number + what);
}

}  // namespace

uint32_t crc32c(const std::string& bytes) {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41 with its bits in reverse
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

std::string first_record(double time) { return event(time, 0, text(3, "brain.Event:2")); }

// SessionLog: status = 1, of which START is 1.
std::string restart_record(double time, int64_t step) {
  return event(time, step, text(7, key(1, kVarint) + varint(1)));
}

// Summary: value = 1; its tag = 1, simple_value = 2.
std::string scalar_record(double time, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& s : scalars) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(s.value));
    summary += text(1, text(1, s.tag) + key(2, kFixed32) + fixed(bits));
  }
  return event(time, step, text(5, summary));
}

}  // namespace runtime::session::tensorboard
