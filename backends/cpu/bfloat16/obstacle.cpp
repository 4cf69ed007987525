// Words the reason for which a device refuses bfloat16: the processor, its options, or oneDNN.
#include "backends/cpu/bfloat16/obstacle.h"

namespace backends::cpu {

std::string bfloat16_obstacle(const Bfloat16Conditions& conditions) {
  if (!conditions.processor) {
    return "bfloat16 needs a processor with AVX512-BF16 (Intel since Cooper Lake and Sapphire "
           "Rapids, AMD since Zen 4), which this one (" +
           conditions.processor_name +
           ") does not have; use float32 (training.mixed_precision = \"none\")";
  }
  if (conditions.limit) {
    return std::string("bfloat16 needs AVX512-BF16, which [device.cpu] isa = \"") +
           option_name(*conditions.limit) +
           "\" leaves out; set isa = \"native\", or use float32 (training.mixed_precision = "
           "\"none\")";
  }
  if (!conditions.onednn) {
    return "bfloat16 needs AVX512-BF16, which the processor has but oneDNN does not use in this "
           "process; unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA, or use float32 "
           "(training.mixed_precision = \"none\")";
  }
  return {};
}

}  // namespace backends::cpu
