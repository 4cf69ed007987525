// Data sets that are known by name: where their files may be and what to do if they are missing.
#include <algorithm>
#include <filesystem>

#include "runtime/data/formats.h"
#include "runtime/data/open.h"
#include "runtime/error.h"
#include "runtime/row_of.h"

namespace runtime::data {
namespace {

namespace fs = std::filesystem;

struct WellKnown {
  const char* name;
  const char* format;
  std::vector<std::string> folders;  // below a folder of the search path
  const char* file;                  // one of its files, by which a folder is recognised
  int64_t classes;                   // 0: taken from the data
  const char* remedy;
  const char* title = nullptr;  // null: that of its files
  bool one_file = false;        // `file` holds all samples
};

const std::vector<WellKnown>& well_known() {
  static const std::vector<WellKnown>& kAll = *new std::vector<WellKnown>{
      {"fashion_mnist",
       "idx",
       {"fashion-mnist", "fashion_mnist", "FashionMNIST", "FashionMNIST/raw"},
       "train-images-idx3-ubyte",
       10,
       "install Debian's package dataset-fashion-mnist (apt install dataset-fashion-mnist)",
       "Fashion-MNIST"},
      {"mnist",
       "idx",
       {"mnist", "MNIST", "MNIST/raw"},
       "train-images-idx3-ubyte",
       10,
       "put MNIST's four IDX files (plain or .gz; of train-images-idx3-ubyte.gz the MD5 sum is "
       "f68b3c2dcbeaaa9fbdd348bbdeb94873) into a folder mnist there",
       "MNIST"},
      {"cifar10",
       "cifar10",
       {"cifar10", "cifar-10", "CIFAR10", "cifar-10-batches-bin"},
       "data_batch_1.bin",
       10,
       "unpack CIFAR-10's binary version there, which is published as "
       "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz (MD5 sum "
       "c32a1d4ab5d03f1284b67883e8d87530)"},
      {"tiny_shakespeare",
       "text",
       {"tinyshakespeare", "tiny_shakespeare", "."},
       "input.txt",
       0,
       "put the text of char-rnn's tinyshakespeare (data/tinyshakespeare/input.txt of "
       "https://github.com/karpathy/char-rnn, 1115394 bytes) as input.txt into a folder "
       "tinyshakespeare there, or use configs/shakespeare_gpt_cpu.toml, which brings a text "
       "along",
       nullptr,
       true},
      {"synthetic", "synthetic", {}, "", 0, ""}};
  return kAll;
}

bool holds(const fs::path& folder, const WellKnown& set) {
  std::error_code ignored;  // a folder that cannot be read counts as one without the file
  return fs::exists(folder / set.file, ignored) ||
         fs::exists(folder / (std::string(set.file) + ".gz"), ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Whether a folder of the search path may itself be the data set's folder, because it has one of
// that folder's usual names.
bool is_named(const fs::path& folder, const WellKnown& set) {
  return std::find(set.folders.begin(), set.folders.end(), folder.filename().string()) !=
         set.folders.end();
}

std::string find_folder(const WellKnown& set, const std::vector<std::string>& search_path) {
  std::string searched;
  for (const std::string& entry : search_path) {
    if (is_named(entry, set) && holds(entry, set)) return entry;
    for (const std::string& folder : set.folders) {
      const fs::path candidate = fs::path(entry) / folder;
      if (holds(candidate, set)) return candidate.string();
    }
    searched.append(searched.empty() ? "" : ", ").append(entry);
  }
  throw DataError("data set " + std::string(set.name) + " not found: no " + set.file +
                  " (or .gz) in a folder " + set.folders.front() + " below " +
                  (searched.empty() ? "(empty search path)" : searched) + "; " + set.remedy +
                  ", name the folders to search in RUNTIME_DATA_PATH, or give dataset.path");
}

}  // namespace

DatasetOptions resolve_well_known(const DatasetOptions& options) {
  for (const WellKnown& set : well_known()) {
    if (options.name != set.name) continue;
    DatasetOptions resolved = options;
    resolved.format = set.format;
    if (set.classes > 0) resolved.classes = set.classes;
    if (set.folders.empty()) return resolved;  // it has no files
    if (resolved.path.empty()) resolved.path = find_folder(set, options.search_path);
    if (set.one_file && is_folder(resolved.path))
      resolved.path = (fs::path(resolved.path) / set.file).lexically_normal().string();
    return resolved;
  }
  std::string names;
  for (const std::string& name : well_known_names()) names += name + ", ";
  throw ConfigurationError("unknown dataset.name \"" + options.name + "\"; expected " + names +
                           "or dataset.format with dataset.path");
}

std::vector<std::string> well_known_names() { return names_of_rows(well_known()); }

const char* well_known_title(const std::string& name) {
  const WellKnown* const set = find_choice(well_known(), name);
  return set == nullptr ? nullptr : set->title;
}

FilePair mnist_files(const std::string& folder, const std::string& prefix) {
  const auto find = [&](const std::string& rest) {
    const std::string plain = (fs::path(folder) / (prefix + rest)).string();
    std::error_code ignored;
    const bool compressed = !fs::exists(plain, ignored) && fs::exists(plain + ".gz", ignored);
    return compressed ? plain + ".gz" : plain;
  };
  return {find("-images-idx3-ubyte"), find("-labels-idx1-ubyte")};
}

std::vector<std::string> split_search_path(const char* value) {
  if (value == nullptr) return {"/usr/local/share/datasets", "/usr/share/datasets"};
  std::vector<std::string> folders;
  const std::string text(value);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) folders.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

}  // namespace runtime::data
