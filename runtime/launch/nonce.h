// Names that no other process or run uses.
#ifndef RUNTIME_LAUNCH_NONCE_H_
#define RUNTIME_LAUNCH_NONCE_H_

#include <string>

namespace runtime::launch {

constexpr int kNonceLength = 32;  // characters

// Returns 128 random bits as hexadecimal digits.
std::string make_nonce();
// Returns whether `text` has the form of a nonce.
bool is_nonce(const std::string& text);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_NONCE_H_
