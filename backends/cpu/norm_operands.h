// Checks of the operands of normalisations.
#ifndef BACKENDS_CPU_NORM_OPERANDS_H_
#define BACKENDS_CPU_NORM_OPERANDS_H_

#include <string>

#include "backends/cpu/bfloat16/operand.h"
#include "backends/cpu/native.h"
#include "rt/sdk/definitions.h"

namespace backends::cpu {

// The checks throw RT_ERROR_INVALID_ARGUMENT with the number of the operand in the text.

// Operands may be in bfloat16 unless their rows say that they stay float32.
inline void check_norm_types(const Operation& op) {
  const rt_dtype type = is_narrow(op) ? RT_BFLOAT16 : RT_FLOAT32;
  const rt::sdk::Definition& definition = *rt::sdk::find_definition(op.name());
  const auto type_of = [&](const rt::sdk::OperandDefinition* row) {
    return row == nullptr || row->is(rt::sdk::OperandDefinition::kWide) ? RT_FLOAT32 : type;
  };
  for (uint32_t i = 0; i < op.own_input_count(); ++i) {
    expect_dtype(op, op.input(i), type_of(definition.input(i)),
                 ("input " + std::to_string(i)).c_str());
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    expect_dtype(op, op.output(i), type_of(definition.output(i, op.own_input_count())),
                 ("output " + std::to_string(i)).c_str());
  }
}

// Inputs begin .. end - 1 are vectors of `channels` numbers.
inline void check_vectors(const Operation& op, uint32_t begin, uint32_t end, int64_t channels) {
  for (uint32_t i = begin; i < end; ++i) {
    if (op.input(i).rank == 1 && op.input(i).dims[0] == channels) continue;
    op.fail("input " + std::to_string(i) + " is " + rt::sdk::to_string(op.input(i)) +
            rt::sdk::format("; expected [%ld]", static_cast<long>(channels)));
  }
}

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_NORM_OPERANDS_H_
