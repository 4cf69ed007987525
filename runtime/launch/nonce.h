// Names that nobody else has.
#ifndef RUNTIME_LAUNCH_NONCE_H_
#define RUNTIME_LAUNCH_NONCE_H_

#include <string>

namespace runtime::launch {

constexpr int kNonceLength = 32;

// 128 random bits as hexadecimal digits.
std::string make_nonce();
bool is_nonce(const std::string& text);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_NONCE_H_
