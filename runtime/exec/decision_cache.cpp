// Writes layout decisions as text files under hashed names, and distrusts what it reads.
#include "runtime/exec/decision_cache.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>

#include "runtime/error.h"
#include "runtime/graph/print.h"
#include "runtime/system/atomic_file.h"

namespace runtime::exec {

namespace {

constexpr const char* kMagic = "runtime-layouts 3";
constexpr const char* kEnd = "end";  // a file without this line was cut off

// FNV-1a, 64 bit (http://www.isthe.com/chongo/tech/comp/fnv/)
uint64_t hash(const std::string& text) {
  uint64_t h = 14695981039346656037u;
  for (unsigned char c : text) h = (h ^ c) * 1099511628211u;
  return h;
}

void write_operands(std::ostream& out, const std::vector<uint64_t>& layouts,
                    const std::vector<uint64_t>& bytes) {
  out << ' ' << layouts.size();
  for (size_t i = 0; i < layouts.size(); ++i) out << ' ' << layouts[i] << ' ' << bytes[i];
}

bool read_operands(std::istream& in, std::vector<uint64_t>* layouts, std::vector<uint64_t>* bytes) {
  size_t count = 0;
  if (!(in >> count) || count > RT_MAX_INPUTS) return false;
  layouts->resize(count);
  bytes->resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (!(in >> (*layouts)[i] >> (*bytes)[i])) return false;
  }
  return true;
}

}  // namespace

const std::string* DecisionBook::find(const std::string& name) const {
  const auto found = texts_.find(name);
  return found == texts_.end() ? nullptr : &found->second;
}

DecisionCache::DecisionCache(std::filesystem::path folder, std::string key, DecisionBook& book)
    : folder_(std::move(folder)), key_(std::move(key)), book_(book) {
  char name[40];
  std::snprintf(name, sizeof(name), "layouts-%016" PRIx64, hash(key_));
  name_ = name;
}

std::optional<graph::LayoutDecision> DecisionCache::read(size_t nodes) const {
  if (const std::string* const text = book_.find(name_)) {
    if (auto decision = parse(*text, nodes)) return decision;
  }
  if (folder_.empty()) return std::nullopt;
  std::ostringstream text;
  text << std::ifstream(folder_ / name_).rdbuf();
  auto decision = parse(text.str(), nodes);
  if (decision) book_.keep(name_, text.str());
  return decision;
}

std::optional<graph::LayoutDecision> DecisionCache::parse(const std::string& text,
                                                          size_t nodes) const {
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line) || line != kMagic || !std::getline(in, line) ||
      line != std::to_string(hash(key_ + "."))) {
    return std::nullopt;
  }
  graph::LayoutDecision decision;
  while (decision.size() < nodes && std::getline(in, line)) {
    std::istringstream fields(line);
    graph::Candidate c;
    if (!(fields >> c.algorithm >> c.ns >> std::quoted(c.implementation)) ||
        !read_operands(fields, &c.input_layouts, &c.input_bytes) ||
        !read_operands(fields, &c.output_layouts, &c.output_bytes)) {
      return std::nullopt;
    }
    decision.push_back(std::move(c));
  }
  if (decision.size() != nodes || !std::getline(in, line) || line != kEnd) return std::nullopt;
  return decision;
}

void DecisionCache::write(const graph::LayoutDecision& decision) const {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  out << kMagic << '\n' << hash(key_ + ".") << '\n';
  for (const graph::Candidate& c : decision) {
    out << c.algorithm << ' ' << c.ns << ' ' << std::quoted(c.implementation);
    write_operands(out, c.input_layouts, c.input_bytes);
    write_operands(out, c.output_layouts, c.output_bytes);
    out << '\n';
  }
  out << kEnd << '\n';
  book_.keep(name_, out.str());
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
  try {
    system::write_file((folder_ / name_).string(), out.str());
  } catch (const DataError&) {
    // A folder that cannot be written is no error: the next run only measures again.
  }
}

namespace {

// One line for each key of [device.<plugin>] with the value with which the device was opened,
// because an option may change which implementations exist (an instruction set, Winograd) and how
// fast they are.
std::string option_lines(const plugins::host::Device& device) {
  const auto& given = device.options().options;
  std::string lines;
  for (const auto& option : device.plugin().options()) {
    const auto it = given.find(option.key);
    lines += option.key + '=' + (it == given.end() ? option.default_value : it->second) + '\n';
  }
  return lines;
}

std::string device_lines(const plugins::host::Device& device) {
  return device.plugin().name() + '\n' + device.plugin().build_id() + '\n' +
         device.properties().stable_id + '\n' + device.properties().name + '\n';
}

}  // namespace

std::string decision_key(const plugins::host::Device& device, const graph::Graph& graph,
                         const std::string& tune, const plugins::host::Device* fallback) {
  std::string key = device_lines(device) + tune + '\n' + option_lines(device);
  if (fallback != nullptr) key += device_lines(*fallback) + option_lines(*fallback);
  for (const graph::Node& node : graph.nodes) {
    key += graph::signature(graph, node);
    for (graph::ValueId v : node.inputs) key += ' ' + std::to_string(v);
    for (graph::ValueId v : node.outputs) key += ' ' + std::to_string(v);
    key += '\n';
  }
  return key;
}

}  // namespace runtime::exec
