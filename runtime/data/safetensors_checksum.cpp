// Finds the place of the digits in a header, and compares checksums.
#include "runtime/data/safetensors_checksum.h"

#include <algorithm>
#include <cstdio>

#include "runtime/data/crc32.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

constexpr char kKey[] = "runtime.checksum";
constexpr char kKeyOf[] = "runtime.checksum_of";
constexpr char kOf[] = "file with zeros for the digits";
constexpr char kKind[] = "crc32:";
constexpr char kBlank[] = "crc32:00000000";
constexpr std::size_t kDigits = 8;

// Finds the digits in a header that this runtime has written. JSON has a backslash before each
// quote inside a string, so the key is found nowhere else.
std::size_t place_of_digits(const std::string& header) {
  const std::string begin = std::string("\"") + kKey + "\":\"" + kKind;
  const std::size_t at = header.find(begin);
  return at == std::string::npos ? at : at + begin.size();
}

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw DataError(file + ": " + what +
                  "; the file is damaged, or another program has changed it and kept its metadata: "
                  "fetch or write it again, or remove the metadata '" +
                  kKey + "' and '" + kKeyOf + "' if you trust it");
}

}  // namespace

Checksum::Checksum(const std::string& header) {
  const uint64_t length = header.size();
  add(&length, kLengthSize);
  add(header.data(), header.size());
}

void Checksum::add(const void* data, std::size_t size) { crc_ = crc32(data, size, crc_); }

void Checksum::add_known(uint32_t crc, std::size_t size) { crc_ = joined_crc32(crc_, crc, size); }

std::string Checksum::text() const {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%s%08x", kKind, crc_);
  return digits;
}

void Checksum::write_into(std::string& header) const {
  header.replace(place_of_digits(header), kDigits, text().substr(sizeof kKind - 1));
}

void Checksum::check(const std::string& file) const {
  if (text() == expected_) return;
  fail(file, "the checksum of the content is " + text() + "; expected " + expected_ +
                 " as its header says");
}

void add_blank_checksum(std::map<std::string, std::string>& metadata) {
  metadata[kKey] = kBlank;
  metadata[kKeyOf] = kOf;
}

std::optional<Checksum> expected_checksum(std::map<std::string, std::string>& metadata,
                                          std::string header, const std::string& file) {
  const auto value = metadata.extract(kKey), of = metadata.extract(kKeyOf);
  if (value.empty() && of.empty()) return std::nullopt;
  const std::string expected = value.empty() ? "" : value.mapped();
  const bool digits = expected.starts_with(kKind) && expected.size() == sizeof kBlank - 1 &&
                      std::all_of(expected.begin() + sizeof kKind - 1, expected.end(), [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                      });
  const std::size_t at = digits ? place_of_digits(header) : std::string::npos;
  if (at == std::string::npos || of.empty() || of.mapped() != kOf)
    fail(file, std::string("the metadata '") + kKey + "' is \"" + expected +
                   "\"; expected \"crc32:\" and eight digits from 0 to f, and '" + kKeyOf +
                   "' beside it");
  header.replace(at, kDigits, std::string(kDigits, '0'));
  Checksum checksum(header);
  checksum.expected_ = expected;
  return checksum;
}

}  // namespace runtime::data
