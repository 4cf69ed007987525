// Any bytes are either NPY data of the size that their header states, or are refused with a
// DataError.
#include "tests/fuzz/array_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_array([&] { return runtime::data::parse_npy(data, size, "fuzz"); });
  return 0;
}
