// Compares event files with those of TensorBoard's own writer.
#include "runtime/session/reports/tensorboard.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <iostream>

#include "runtime/session/reports/metrics_files.h"
#include "tests/runtime/support/devices.h"

namespace runtime::session {
namespace {

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  char digits[3];
  for (const char byte : bytes) {
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

// The check value of this CRC in the catalogue of parametrised CRC algorithms.
TEST(TensorBoard, Crc32c) {
  EXPECT_EQ(tensorboard::crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(tensorboard::crc32c(""), 0u);
}

// Printed by TensorBoard's own writer (tensorboard.summary.writer, 2.21) for the same events.
TEST(TensorBoard, RecordsAreThoseOfItsOwnWriter) {
  EXPECT_EQ(hexadecimal(tensorboard::first_record(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hexadecimal(tensorboard::restart_record(2.5, 301)),
            "100000000000000095fbfe1809000000000000044010ad023a0208019daf86af");
  EXPECT_EQ(
      hexadecimal(tensorboard::scalar_record(3.5, 300, {{"train/loss", 0.25}, {"x", -1}})),

      "2b00000000000000861bc34b090000000000000c4010ac022a1d0a110a0a747261696e2f6c6f7373150000803e0a"
      "080a017815000080bfed8c93e4");
}

TEST(TensorBoard, EachRunOfAFolderHasAFileOfItsOwn) {
  test::TemporaryFolder folder;
  const std::filesystem::path events = folder.path() / "tensorboard";
  for (const int64_t after : {0, 10}) {
    const auto reporter = make_tensorboard(events.string(), after, std::cerr);
    reporter->line({after + 5, 0, 0.5, 0.1, 100, 0.25, std::nullopt});
    reporter->finish();
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(events), {}), 2);
}

}  // namespace
}  // namespace runtime::session
