// Tells one data set from another.
#ifndef RUNTIME_DATA_FINGERPRINT_H_
#define RUNTIME_DATA_FINGERPRINT_H_

#include <string>

#include "runtime/data/dataset.h"

namespace runtime::data {

// The number of samples, and a checksum of 64 of them, evenly spread, as the data set returns them.
// Data sets with the same fingerprint may still differ in other samples. Throws what reading a
// sample throws. Any thread may call it.
std::string fingerprint(const Dataset& dataset);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_FINGERPRINT_H_
