// Checks of the file itself: what the library exports, and whether it loads.
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "plugins/check/check.h"
#include "plugins/host/loader.h"

namespace plugins::check {

namespace {

// The linker defines these in every shared library.
constexpr const char* kLinkerSymbols[] = {"_init", "_fini", "__bss_start", "_edata", "_end"};

// The dynamic symbols and entries of a 64-bit ELF file. Every access is checked against the size of
// the file.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    header_ = read<Elf64_Ehdr>(0);
    require(std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
                header_.e_ident[EI_CLASS] == ELFCLASS64,
            "the file is not a 64-bit ELF library; expected a shared library of this machine");
  }

  // The names of the functions and variables that other libraries see.
  std::vector<std::string> exported() const {
    std::vector<std::string> names;
    for_each<Elf64_Sym>(SHT_DYNSYM, [&](const Elf64_Sym& symbol, uint32_t strings) {
      const bool defined = symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS;
      if (defined && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)
        names.push_back(text(strings, symbol.st_name));
    });
    return names;
  }

  // The folders in which the loader searches for the libraries that this one needs.
  std::string run_path() const {
    std::string path;
    for_each<Elf64_Dyn>(SHT_DYNAMIC, [&](const Elf64_Dyn& entry, uint32_t strings) {
      if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH)
        path = text(strings, entry.d_un.d_val);
    });
    return path;
  }

 private:
  template <typename T>
  T read(uint64_t offset) const {
    require(offset <= bytes_.size() && bytes_.size() - offset >= sizeof(T),
            "the file is truncated; build it again");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  Elf64_Shdr section(uint64_t index) const {
    return read<Elf64_Shdr>(header_.e_shoff + index * sizeof(Elf64_Shdr));
  }

  // Calls `visit` with each element of the sections of that type, and the section of its texts.
  template <typename T>
  void for_each(uint32_t type, const std::function<void(const T&, uint32_t)>& visit) const {
    for (uint64_t i = 0; i < header_.e_shnum; ++i) {
      const Elf64_Shdr found = section(i);
      if (found.sh_type != type) continue;
      for (uint64_t at = 0; at + sizeof(T) <= found.sh_size; at += sizeof(T))
        visit(read<T>(found.sh_offset + at), found.sh_link);
    }
  }

  std::string text(uint32_t strings, uint64_t offset) const {
    const uint64_t begin = section(strings).sh_offset + offset;
    require(begin < bytes_.size(), "the file is truncated; build it again");
    return bytes_.substr(begin, bytes_.find('\0', begin) - begin);
  }

  std::string bytes_;
  Elf64_Ehdr header_{};
};

bool is_of_linker(const std::string& name) {
  for (const char* known : kLinkerSymbols)
    if (name == known) return true;
  return false;
}

std::string exports_entry_alone(Context& context) {
  bool entry = false;
  std::vector<std::string> others;
  for (const std::string& name : ElfFile(context.setup().library).exported()) {
    if (name == RT_PLUGIN_ENTRY_SYMBOL) {
      entry = true;
    } else if (!is_of_linker(name)) {
      others.push_back(name);
    }
  }
  require(entry, "the library does not export " RT_PLUGIN_ENTRY_SYMBOL);
  if (others.empty()) return "";
  throw Fault(fmt::format(
      "the library exports {} more symbols than " RT_PLUGIN_ENTRY_SYMBOL
      ", the first is {}; they can be taken for those of another plugin. Build with hidden "
      "visibility and a version script, as runtime_add_plugin does",
      others.size(), others.front()));
}

std::string has_no_relative_run_path(Context& context) {
  const std::string path = ElfFile(context.setup().library).run_path();
  if (path.empty()) return "";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    require(folder.starts_with('/') || folder.starts_with("$ORIGIN"),
            fmt::format("the library's RUNPATH \"{}\" has the entry \"{}\", for which the loader "
                        "searches the folder in which the program was started; name folders by "
                        "absolute paths or $ORIGIN",
                        path, folder));
    begin = end + 1;
  }
  return "";
}

std::string loads(Context& context) {
  const auto plugin = context.plugin();
  return fmt::format("{} {}, contract {}.{}", plugin->name(), plugin->version(), RT_ABI_MAJOR,
                     plugin->minor());
}

}  // namespace

void add_library_checks(std::vector<Check>& checks) {
  checks.push_back({"library", "exports rt_plugin_entry and nothing else", exports_entry_alone});
  checks.push_back(
      {"library", "searches no relative folder for libraries", has_no_relative_run_path});
  checks.push_back({"library", "loads, with complete tables and texts", loads});
}

}  // namespace plugins::check
