// Draws random names, and recognises them.
#include "runtime/launch/nonce.h"

#include <cstdio>
#include <random>

namespace runtime::launch {

std::string make_nonce() {
  std::random_device random;
  std::string text;
  while (text.size() < kNonceLength) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(random()));
    text += digits;
  }
  return text;
}

bool is_nonce(const std::string& text) {
  return text.size() == kNonceLength && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace runtime::launch
