// Checks owner and processor of a library, opens it, and looks its entry up.
#include "plugins/host/loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "plugins/host/descriptor.h"
#include "plugins/host/error.h"
#include "plugins/host/printable.h"

// The header of the program or library that this code is in; the linker defines it under this name.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" __attribute__((visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;

namespace plugins::host {
namespace {

using FileHeader = ElfW(Ehdr);
using Segment = ElfW(Phdr);

constexpr unsigned char kNativeClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

std::string plugin_text(const std::filesystem::path& path) {
  return "plugin " + printable(path.string());
}

[[noreturn]] void refuse_file(const CheckedFile& file, const std::string& reason) {
  throw Error(RT_ERROR_UNAVAILABLE, plugin_text(file.named) + ": " + reason);
}

std::string loader_words() {
  const char* words = ::dlerror();
  std::string text = words != nullptr ? printable(words) : "the loader gave no reason";
  // The loader does not say that this is want of memory.
  if (text.ends_with("failed to map segment from shared object"))
    text += "; the process gets no more memory (ulimit -v shows its limit)";
  return text;
}

// Returns "AArch64 (64 bits)" or, for a processor that is not in the list, "ELF machine 22 (64
// bits)".
std::string processor_of(uint16_t machine, unsigned char width) {
  constexpr std::pair<uint16_t, const char*> kNames[] = {
      {EM_X86_64, "x86-64"}, {EM_AARCH64, "AArch64"}, {EM_386, "x86"},   {EM_ARM, "ARM"},
      {EM_RISCV, "RISC-V"},  {EM_PPC64, "POWER"},     {EM_S390, "s390x"}};
  std::string name = "ELF machine " + std::to_string(machine);
  for (const auto& [number, text] : kNames)
    if (number == machine) name = text;
  return name + (width == ELFCLASS64 ? " (64 bits)" : " (32 bits)");
}

// Refuses a library for another processor, of which the loader says only that there is no such
// file. The machine is at the same place in the headers of both widths.
void check_processor(const CheckedFile& file, const FileHeader& header) {
  const unsigned char width = header.e_ident[EI_CLASS], order = header.e_ident[EI_DATA];
  if (width == kNativeClass && order == __ehdr_start.e_ident[EI_DATA] &&
      header.e_machine == __ehdr_start.e_machine)
    return;
  refuse_file(file, "is for another processor: got " + processor_of(header.e_machine, width) +
                        ", expected " + processor_of(__ehdr_start.e_machine, kNativeClass) +
                        "; build it on a machine like this one");
}

// Opens the file that is at the path now and refuses it unless it is the file that was checked.
Descriptor open_checked(const CheckedFile& file) {
  Descriptor descriptor(::open(file.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) refuse_file(file, std::string("cannot be opened: ") + std::strerror(errno));
  if (identity_of(descriptor.get(), plugin_text(file.named)) != file.identity)
    refuse_file(file, "has changed since it was checked; start again when nobody writes it");
  return descriptor;
}

// Reads exactly `bytes` bytes, in as many calls as needed. false: errno has the reason.
bool read_at(const Descriptor& descriptor, void* to, std::size_t bytes, uint64_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(descriptor.get(), static_cast<char*>(to) + done, bytes - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ENODATA;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

// Refuses the file unless `bytes` bytes from `offset` on lie within it. The check cannot overflow.
void check_part(const CheckedFile& file, const char* part, uint64_t offset, uint64_t bytes) {
  const uint64_t size = file.identity.bytes;
  if (offset <= size && bytes <= size - offset) return;
  refuse_file(file, "is cut off: its " + std::string(part) + " (" + std::to_string(bytes) +
                        " bytes from byte " + std::to_string(offset) +
                        " on) does not fit into its " + std::to_string(size) +
                        " bytes; build or copy it again");
}

// Refuses the file unless it is for this processor and everything that its ELF headers describe
// lies within it. A file that is not of ELF passes, because the loader has a message for it.
void check_complete(const CheckedFile& file, const Descriptor& descriptor) {
  FileHeader header;
  if (!read_at(descriptor, &header, sizeof(header), 0) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return;
  check_processor(file, header);
  if (header.e_phentsize != sizeof(Segment)) return;
  check_part(file, "table of segments", header.e_phoff, uint64_t{header.e_phnum} * sizeof(Segment));
  check_part(file, "table of sections", header.e_shoff,
             uint64_t{header.e_shnum} * header.e_shentsize);
  std::vector<Segment> segments(header.e_phnum);
  if (!read_at(descriptor, segments.data(), segments.size() * sizeof(Segment), header.e_phoff))
    refuse_file(file, std::string("cannot be read: ") + std::strerror(errno));
  for (const Segment& segment : segments) {
    if (segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC)
      check_part(file, "segment", segment.p_offset, segment.p_filesz);
  }
}

// The library that holds the address; nullptr if there is none.
const struct link_map* owner_of(void* address) {
  Dl_info info{};
  void* owner = nullptr;
  if (::dladdr1(address, &info, &owner, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<const struct link_map*>(owner);
}

}  // namespace

CheckedFile check_library(const std::filesystem::path& path) {
  return check_file(path, plugin_text(path));
}

rt_plugin_entry_fn open_library(const CheckedFile& file) {
  check_complete(file, open_checked(file));
  ::dlerror();
  void* library = ::dlopen(file.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse_file(file, "cannot be loaded: " + loader_words());
  open_checked(file);
  void* symbol = ::dlsym(library, RT_PLUGIN_ENTRY_SYMBOL);
  if (symbol == nullptr) {
    refuse_file(file, "is not a plugin of this runtime, it does not export " RT_PLUGIN_ENTRY_SYMBOL
                      ": " +
                          loader_words());
  }
  struct link_map* own = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &own) != 0 || owner_of(symbol) != own) {
    refuse_file(file, "does not export " RT_PLUGIN_ENTRY_SYMBOL
                      " itself; one of the libraries that it depends on does");
  }
  return reinterpret_cast<rt_plugin_entry_fn>(symbol);
}

}  // namespace plugins::host
