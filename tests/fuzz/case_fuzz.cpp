// Any text is either the description of a case, which reads back to itself after it is written, or
// is refused with a DataError.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "runtime/error.h"
#include "tools/verify/case.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string written;
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    written = runtime::verify::case_to_json(runtime::verify::case_from_json(text, "fuzz"));
  } catch (const runtime::DataError&) {
    return 0;
  }
  // An exception from here is a finding: a case that was accepted once must be accepted again.
  const auto again = runtime::verify::case_from_json(written, "fuzz");
  if (runtime::verify::case_to_json(again) != written) std::abort();
  return 0;
}
