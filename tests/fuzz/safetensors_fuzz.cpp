// Any bytes are either safetensors whose tensors cover the file, or are refused with a DataError.
#include <cstdlib>

#include "runtime/data/safetensors.h"
#include "runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file =
        runtime::data::parse_safetensors(reinterpret_cast<const std::byte*>(data), size, "fuzz");
    size_t bytes = 0;
    for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes.size();
    if (bytes >= size) std::abort();
  } catch (const runtime::DataError&) {
  }
  return 0;
}
