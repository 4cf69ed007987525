// Writes cases and the reference's results to a safetensors file, so that another program can
// compare them.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_EXPORT_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_EXPORT_H_

#include <filesystem>

#include "tests/differential/operations/check.h"
#include "tests/differential/operations/draw.h"

namespace differential {

// Writes cases 0 to count-1 of `seed`. Tensors are "K/input/I", "K/forward/I" and "K/output/J" of
// case K; "cases" in `__metadata__` is JSON: a list of {case, operation, attributes, post}. Throws
// std::runtime_error, which names the file, if it cannot be written.
void export_cases(plugins::host::Device& reference, const DrawOptions& options, uint64_t seed,
                  uint64_t count, const std::filesystem::path& file);

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_EXPORT_H_
