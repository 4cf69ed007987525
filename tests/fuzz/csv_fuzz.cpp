// Any text is either a table of finite numbers, or is refused with a DataError. The first byte
// selects the options.
#include <cmath>
#include <cstdlib>

#include "runtime/data/csv.h"
#include "runtime/error.h"

namespace {

using runtime::data::CsvOptions;
using runtime::data::CsvTable;

CsvOptions options_from(uint8_t byte) {
  CsvOptions options;
  options.target = (byte & 1) != 0 ? "-1" : "y";
  options.classification = (byte & 2) != 0;
  options.classes = (byte & 4) != 0 ? 3 : 0;
  if ((byte & 8) != 0) options.features = {"0"};
  return options;
}

void check(const CsvTable& table) {
  const auto& part = table.part;
  if (static_cast<int64_t>(part.floats.size()) != part.samples * part.features()) std::abort();
  for (const float value : part.floats) {
    if (!std::isfinite(value)) std::abort();
  }
  for (const int32_t label : part.targets.labels) {
    if (label < 0 || label >= part.targets.classes) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const CsvOptions options = options_from(data[0]);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  CsvTable table;
  try {
    table = runtime::data::parse_csv(text, "fuzz", options);
  } catch (const runtime::DataError&) {
    return 0;
  }
  check(table);
  // A table that was accepted for training must be accepted for validation as well.
  if (runtime::data::parse_csv(text, "fuzz", options, &table).part.samples != table.part.samples) {
    std::abort();
  }
  return 0;
}
