// Looks up which functions of OpenMP oneDNN calls, and where it finds them.
#include "backends/cpu/onednn_threads.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

namespace backends::cpu {
namespace {

constexpr std::array<std::string_view, 7> kServed = {
    "GOMP_barrier",       "GOMP_parallel",   "omp_get_max_threads", "omp_get_num_threads",
    "omp_get_thread_num", "omp_in_parallel", "omp_set_num_threads"};

bool is_openmp(std::string_view name) {
  return name.starts_with("GOMP_") || name.starts_with("omp_") || name.starts_with("__kmpc_");
}

// The parts of a library's dynamic section that say which functions it takes from others.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * tables[2] = {nullptr, nullptr};
  size_t bytes[2] = {0, 0};
};

Imports imports_of(const link_map& library) {
  Imports found;
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    // glibc has added the address of the library; other systems have not.
    const ElfW(Addr) at = entry->d_un.d_ptr;
    const auto* const address =
        std::bit_cast<const char*>(at < library.l_addr ? at + library.l_addr : at);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        found.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        found.names = address;
        break;
      case DT_RELA:
        found.tables[0] = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        found.bytes[0] = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        found.tables[1] = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        found.bytes[1] = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  return found;
}

// Whether a library takes a function of OpenMP from others that is not in kServed.
bool calls_unknown_function(const link_map& library) {
  const Imports imports = imports_of(library);
  if (imports.symbols == nullptr || imports.names == nullptr) return true;
  for (int table = 0; table < 2; ++table) {
    for (size_t i = 0; i < imports.bytes[table] / sizeof(ElfW(Rela)); ++i) {
      const size_t symbol = ELF64_R_SYM(imports.tables[table][i].r_info);
      const std::string_view name = imports.names + imports.symbols[symbol].st_name;
      if (is_openmp(name) && std::find(kServed.begin(), kServed.end(), name) == kServed.end())
        return true;
    }
  }
  return false;
}

}  // namespace

bool team_serves_onednn() {
  static const bool serves = [] {
    Dl_info info{};
    link_map* library = nullptr;
    void* const address = reinterpret_cast<void*>(&dnnl_primitive_execute);
    return dladdr1(address, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) != 0 &&
           !calls_unknown_function(*library);
  }();
  return serves;
}

void set_onednn_threads(int threads) {
  // The dynamic linker gave oneDNN the same function.
  static const auto set =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(threads);
}

}  // namespace backends::cpu
