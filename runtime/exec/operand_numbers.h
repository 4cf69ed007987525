// Random numbers for the operands of an operation whose time is measured.
#ifndef RUNTIME_EXEC_OPERAND_NUMBERS_H_
#define RUNTIME_EXEC_OPERAND_NUMBERS_H_

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "plugins/host/device.h"

namespace runtime::exec {

// The numbers x that an operand may hold, low <= x < high.
struct NumberRange {
  double low = 0, high = 0;
};

// The range for an input of the operation, of which operations.md says what it may hold: numbers of
// both signs; positive ones for operands that stay float32 beside 16 bits, because a variance, a
// rate or the weight of a sample is one of them; classes and rows of the table that the operation
// has; 1 for the number of a step; 0 for the integers of an operation that the contract does not
// define.
NumberRange range_of(const plugins::host::Operation& operation, size_t input);

// Makes operands. One thread uses it.
class OperandNumbers {
 public:
  // Queues copies that fill `bytes` bytes of device memory with elements of the type, whatever
  // their layout is: what a layout pads holds random numbers, too. The same elements repeat after a
  // number of elements that is prime, so that rows differ.
  void fill(plugins::host::Stream& stream, void* address, uint64_t bytes, rt_dtype dtype,
            const NumberRange& range);

 private:
  const std::vector<std::byte>& block(rt_dtype dtype, const NumberRange& range);

  std::map<std::tuple<rt_dtype, double, double>, std::vector<std::byte>> blocks_;
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_OPERAND_NUMBERS_H_
