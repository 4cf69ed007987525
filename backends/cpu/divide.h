// Divisions that round up.
#ifndef BACKENDS_CPU_DIVIDE_H_
#define BACKENDS_CPU_DIVIDE_H_

#include <cstdint>

namespace backends::cpu {

// a / b, rounded up, and the next multiple of b. a >= 0, b > 0.
constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_DIVIDE_H_
