// A TcpStore and its server speak this protocol.
#ifndef RUNTIME_LAUNCH_STORE_MESSAGES_H_
#define RUNTIME_LAUNCH_STORE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace runtime::launch::wire {

// A client sends a hello: kMagic, the size of the secret and the secret. The server answers with
// kWelcome, or with kWrongSecret and the end of the connection. Then the client sends requests: a
// byte (kSet, kGet), three numbers (milliseconds to wait for the key, bytes of the key, bytes of
// the value), key and value. The server answers each with a byte, the number of bytes of a value,
// and the value: kStored or kFull after kSet, kFound or kNothing after kGet. Numbers have 32 bits,
// the lowest byte first. The last byte of kMagic is the version.
inline constexpr std::string_view kMagic = "RTSTORE\1";
enum : char {
  kWelcome = 'w',
  kWrongSecret = 'x',
  kSet = 's',
  kGet = 'g',
  kStored = 'k',
  kFull = 'f',
  kFound = 'v',
  kNothing = 'n'
};

inline constexpr std::size_t kNumber = 4;                     // bytes of a number
inline constexpr std::size_t kRequestHead = 1 + 3 * kNumber;  // bytes in front of the key
inline constexpr std::size_t kAnswerHead = 1 + kNumber;       // bytes in front of the value
inline constexpr std::size_t kMostSecret = 1024, kMostKey = 4096;

inline void add_number(std::string& to, std::size_t number) {
  for (std::size_t i = 0; i < kNumber; ++i)
    to += static_cast<char>(static_cast<uint8_t>(number >> (8 * i)));
}

// `from` has kNumber bytes at `at`.
inline std::size_t number_at(std::string_view from, std::size_t at) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < kNumber; ++i)
    number |= std::size_t{static_cast<uint8_t>(from[at + i])} << (8 * i);
  return number;
}

}  // namespace runtime::launch::wire

#endif  // RUNTIME_LAUNCH_STORE_MESSAGES_H_
