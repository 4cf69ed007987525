// Limits oneDNN to an instruction set before its first use, and tells which one it has fixed.
#include "backends/cpu/onednn_isa.h"

#include <cstdlib>
#include <dnnl.hpp>
#include <string>

#include "rt/sdk/error.h"

namespace backends::cpu {
namespace {

dnnl::cpu_isa to_onednn(Isa isa) {
  if (isa == Isa::kAvx512) return dnnl::cpu_isa::avx512_core;
  return isa == Isa::kAvx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;
}

// oneDNN's values are bit sets: a wider instruction set contains the bits of the narrower ones.
bool includes(dnnl::cpu_isa isa, Isa part) {
  const auto wanted = static_cast<unsigned>(to_onednn(part));
  return (static_cast<unsigned>(isa) & wanted) == wanted;
}

// After this call, oneDNN refuses to change its instruction set.
Isa isa_in_use() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (includes(isa, Isa::kAvx512)) return Isa::kAvx512;
  return includes(isa, Isa::kAvx2) ? Isa::kAvx2 : Isa::kGeneric;
}

bool limited_by_environment() {
  const char *current = std::getenv("ONEDNN_MAX_CPU_ISA"), *old = std::getenv("DNNL_MAX_CPU_ISA");
  return (current != nullptr && *current != 0) || (old != nullptr && *old != 0);
}

}  // namespace

void limit_onednn(std::optional<Isa> limit) {
  // oneDNN accepts only the first such call in a process.
  if (limit) dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(to_onednn(*limit)));
  const Isa used = isa_in_use();
  if (limit ? used == *limit : used >= widest_isa() || limited_by_environment()) return;
  const std::string asked = limit ? option_name(*limit) : "native";
  throw rt::sdk::Error(
      RT_ERROR_UNAVAILABLE,
      "[device.cpu] isa = \"" + asked + "\": oneDNN works with " + option_name(used) +
          " in this process, and its instruction set can be set only once in a process, before its "
          "first use; open every cpu device of a process with the same isa, or put this one into a "
          "process of its own",
      RT_SCOPE_DEVICE);
}

bool onednn_uses_bfloat16() {
  constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
}

}  // namespace backends::cpu
