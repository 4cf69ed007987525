// Finds memory by the state of files, and lays tables into it.
#include "runtime/data/shared.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

namespace runtime::data {
namespace {

namespace fs = std::filesystem;
using TableJson = nlohmann::json;

// Text that changes with a file: device, number, size and times.
std::string state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path + ": missing\n";
  const auto time = [](const timespec& t) {
    return std::to_string(t.tv_sec) + "." + std::to_string(t.tv_nsec);
  };
  return path + ": " + std::to_string(status.st_dev) + " " + std::to_string(status.st_ino) + " " +
         std::to_string(status.st_size) + " " + time(status.st_mtim) + " " + time(status.st_ctim) +
         "\n";
}

// The same of the files of a folder, too.
std::string states_of(const std::string& path) {
  std::string states = state_of(path);
  std::error_code ignored;  // what cannot be listed is refused by what reads it
  std::vector<std::string> files;
  for (fs::directory_iterator file(path, ignored), end; !ignored && file != end;
       file.increment(ignored))
    files.push_back(file->path().string());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) states += state_of(file);
  return states;
}

std::string dumped(const TableJson& json) {
  return json.dump(-1, ' ', false, TableJson::error_handler_t::replace);
}

// All options. A new member does not compile here until it is named. Formats of plugins share
// nothing, and `shared` is true.
std::string text_of(const DatasetOptions& options) {
  const auto& [name, format, path, target_path, validation_path, validation_target_path, inputs,
               features, texts, target, header, classification, masked_token, mask_share,
               mask_token, next_token, validation_split, samples, classes, targets, shape, resize,
               resize_shorter, mean, std, standardize, seed, tokenizer, tokenizer_path,
               replaces_invalid_utf8, token_type, separator, stride, search_path, preparation,
               needs_targets, shared, open_records] = options;
  TableJson sources = TableJson::array();
  for (const InputSource& source : inputs) {
    sources.push_back(
        {source.name, source.path, source.validation_path, source.columns, source.integers});
  }
  return dumped({name,
                 format,
                 path,
                 target_path,
                 validation_path,
                 validation_target_path,
                 sources,
                 features,
                 texts,
                 target,
                 header ? TableJson(*header) : TableJson(),
                 classification,
                 masked_token,
                 mask_share,
                 mask_token,
                 next_token,
                 validation_split,
                 samples,
                 classes,
                 targets,
                 shape,
                 resize,
                 resize_shorter,
                 mean,
                 std,
                 standardize,
                 seed,
                 tokenizer,
                 tokenizer_path,
                 replaces_invalid_utf8,
                 token_type,
                 separator,
                 stride,
                 search_path,
                 preparation ? TableJson(to_json(*preparation)) : TableJson(),
                 needs_targets});
}

template <class T>
void add(std::span<const T> numbers, system::Pieces& pieces) {
  pieces.begin(numbers.size_bytes());
  pieces.add(numbers.data(), numbers.size_bytes());
}

// Returns the part as JSON, without the numbers of its samples.
TableJson header_of(const HeldPart& part) {
  TableJson inputs = TableJson::array();
  for (const InputColumn& column : part.inputs) {
    const SampleInput& input = column.input;
    inputs.push_back({input.name, input.shape, input.integers, input.least, input.most});
  }
  return {part.title, part.shape, part.samples, part.classes, part.targets, inputs};
}

HeldPart part_of(const TableJson& header) {
  HeldPart part{.title = header.at(0),
                .shape = header.at(1),
                .samples = header.at(2),
                .classes = header.at(3),
                .targets = header.at(4)};
  for (const TableJson& input : header.at(5)) {
    InputColumn& column = part.inputs.emplace_back();
    column.input = {input.at(0), input.at(1), input.at(2), input.at(3), input.at(4)};
  }
  return part;
}

// Calls visit(numbers) for all numbers of a part, in the order of their pieces.
template <class Part, class Visit>
void each_number(Part& part, const Visit& visit) {
  visit(part.floats);
  visit(part.labels);
  visit(part.values);
  for (auto& column : part.inputs) {
    visit(column.floats);
    visit(column.integers);
  }
}

}  // namespace

std::shared_ptr<const system::HostMemory> read_once(const DatasetOptions& options,
                                                    const std::vector<std::string>& files,
                                                    const system::HostMemory::Fill& fill,
                                                    std::vector<std::string>& notes) {
  if (!options.shared) return system::fill_memory(fill);
  // Other programs may read files otherwise.
  std::string key = text_of(options) + "\n" + state_of("/proc/self/exe");
  for (const std::string& file : files) {
    if (!file.empty()) key += states_of(file);
  }
  const system::SharedMemory shared = system::share_memory(key, fill);
  if (!shared.why_not.empty()) {
    notes.push_back("each rank of this machine holds the data in memory of its own: " +
                    shared.why_not);
  }
  return shared.memory;
}

void write_table(const Table& table, system::Pieces& pieces) {
  TableJson header = {to_json(table.preparation), table.labelled, TableJson::array()};
  for (const HeldPart& part : table.parts) header.at(2).push_back(header_of(part));
  const std::string text = dumped(header);
  add(std::span<const char>(text), pieces);
  for (const HeldPart& part : table.parts)
    each_number(part, [&](const auto& numbers) { add(numbers.span(), pieces); });
}

Table read_table(const std::shared_ptr<const system::HostMemory>& memory) {
  const auto text = memory->numbers<char>(0);
  const TableJson header = TableJson::parse(text.begin(), text.end());
  Table table{.parts = {},
              .preparation = parse_preparation(header.at(0), "shared memory"),
              .labelled = header.at(1)};
  std::size_t next = 1;
  for (const TableJson& of_part : header.at(2)) {
    HeldPart& part = table.parts.emplace_back(part_of(of_part));
    each_number(part, [&]<class T>(Held<T>& numbers) {
      numbers = Held<T>(memory, memory->numbers<T>(next++));
    });
  }
  return table;
}

}  // namespace runtime::data
