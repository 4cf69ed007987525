// Checks of the fuzzers of array formats on an array that was accepted.
#ifndef TESTS_FUZZ_ARRAY_FUZZ_H_
#define TESTS_FUZZ_ARRAY_FUZZ_H_

#include <cstdlib>

#include "runtime/data/array.h"
#include "runtime/data/part.h"
#include "runtime/error.h"

// Dimensions and bytes must agree; the array is converted to features and to labels, or the
// conversion is refused.
template <class Parse>
void fuzz_array(const Parse& parse) {
  using namespace runtime::data;
  try {
    Array array = parse();
    int64_t elements = 1;
    for (const int64_t dim : array.dims) elements *= dim;
    if (elements != array.elements()) std::abort();
    try {
      const Targets targets = classification_targets(array, 0);
      for (const int32_t label : targets.labels) {
        if (label < 0 || label >= targets.classes) std::abort();
      }
    } catch (const runtime::DataError&) {
    }
    const Part part = features_of(std::move(array));
    if (part.samples * part.features() != elements) std::abort();
  } catch (const runtime::DataError&) {
  }
}

#endif  // TESTS_FUZZ_ARRAY_FUZZ_H_
