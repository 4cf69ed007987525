// CRC-32 beside its definition, one bit at a time.
#include "runtime/data/crc32.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace runtime::data {
namespace {

uint32_t by_definition(const std::string& text) {
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

std::string random_text(size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(Crc32, IsThatOfGzip) {
  EXPECT_EQ(crc32("123456789", 9), 0xcbf43926u);
  EXPECT_EQ(crc32(nullptr, 0), 0u);
  EXPECT_EQ(crc32(nullptr, 0, 17u), 17u);
  for (const size_t size : {1, 7, 15, 16, 17, 63, 64, 255, 256, 1000, 4097, 100003}) {
    const std::string text = random_text(size);
    EXPECT_EQ(crc32(text.data(), size), by_definition(text)) << size;
  }
}

TEST(Crc32, GoesOnAndIsJoinedFromParts) {
  const std::string text = random_text(5000);
  for (const size_t first : {0, 1, 16, 77, 4096, 5000}) {
    const size_t rest = text.size() - first;
    const uint32_t a = crc32(text.data(), first), b = crc32(text.data() + first, rest);
    EXPECT_EQ(crc32(text.data() + first, rest, a), by_definition(text)) << first;
    EXPECT_EQ(joined_crc32(a, b, rest), by_definition(text)) << first;
  }
}

}  // namespace
}  // namespace runtime::data
