// Reads files with what they extend, presets and overrides, and merges them key by key.
#include "runtime/config/source.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "plugins/host/nearest.h"
#include "runtime/config/check_source.h"
#include "runtime/config/format.h"
#include "runtime/config/read.h"
#include "runtime/config/schema.h"
#include "runtime/error.h"

namespace runtime::config {
namespace {

namespace fs = std::filesystem;
using Kind = Value::Kind;

constexpr int kMaxFiles = 64;  // files read for one configuration, because a file may extend
                               // several

std::string read_bytes(const std::string& path, const std::string& tried) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw ConfigurationError(tried + ": it is a folder, expected a TOML file");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw ConfigurationError(tried + ": it does not exist or cannot be read; check the path");
  }
  // One byte above the limit is enough for parse_toml to refuse the text. The size is bounded
  // because a device file may never end.
  std::string text(kMaxTextBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

std::string absolute_in(const fs::path& folder, const std::string& path) {
  if (path.empty()) return path;
  return (folder / path).lexically_normal().string();
}

void make_absolute(Value& value, const fs::path& folder) {
  if (value.is(Kind::kString)) value.string = absolute_in(folder, value.string);
  for (Value& item : value.items) make_absolute(item, folder);
}

// A data file may also lie in the working folder or below RUNTIME_DATA_PATH. The room that opens it
// searches there, so a path to a file that does not exist here stays relative.
void make_absolute_if_there(Value& value, const fs::path& folder) {
  std::error_code ignored;  // a folder that cannot be read counts as one without the file
  if (!value.string.empty() && fs::exists(folder / value.string, ignored))
    value.string = absolute_in(folder, value.string);
}

void make_paths_absolute(Value& table, const std::vector<Key>& keys, const std::string& path_of,
                         const fs::path& folder) {
  for (const Key& key : keys) {
    const bool data = key.type == Type::kDataPath;
    if (!data && key.type != Type::kPath && key.type != Type::kPaths && key.item_keys.empty())
      continue;
    Member* const member = table.find(key.name);
    if (member == nullptr) continue;
    const std::string path = path_of + "." + key.name;
    check_value(member->value, key, path);
    for (Value& item : member->value.items) {
      if (!key.item_keys.empty()) make_paths_absolute(item, key.item_keys, path, folder);
    }
    if (key.item_keys.empty())
      data ? make_absolute_if_there(member->value, folder) : make_absolute(member->value, folder);
  }
}

void make_paths_absolute(Value& root, const fs::path& folder) {
  for (const Section& section : sections()) {
    if (Member* const member = root.find(section.name))
      make_paths_absolute(member->value, section.keys, section.name, folder);
  }
}

// The value of `extends` is one path or a list of them.
std::vector<const Value*> extended_files(const Value& root) {
  const Member* member = root.find(extends_key().name);
  if (member == nullptr) return {};
  if (member->value.is(Kind::kString)) return {&member->value};
  check_value(member->value, extends_key(), extends_key().name);
  std::vector<const Value*> files;
  for (const Value& item : member->value.items) files.push_back(&item);
  return files;
}

class FileReader {
 public:
  Value read(const std::string& path, const std::string& tried) {
    const fs::path full = fs::absolute(path).lexically_normal();
    Value root = parse_toml(read_bytes(path, tried), path);
    check_source(root);
    make_paths_absolute(root, full.parent_path());
    open_.push_back(full);
    Value merged = read_extended(root, full.parent_path());
    open_.pop_back();
    root.remove(extends_key().name);
    const Position position = root.position;
    merge(merged, std::move(root));
    merged.position = position;
    return merged;
  }

 private:
  Value read_extended(const Value& root, const fs::path& folder) {
    Value merged;
    for (const Value* item : extended_files(root)) {
      const std::string path = absolute_in(folder, item->string);
      check_open(*item, path);
      const std::string where = item->position.text();
      merge(merged, read(path, where + ": extends: cannot read " + path));
    }
    return merged;
  }

  void check_open(const Value& item, const fs::path& path) {
    const auto same = [&](const fs::path& other) {
      std::error_code error;
      return other == path || fs::equivalent(other, path, error);
    };
    if (item.string.empty() || std::any_of(open_.begin(), open_.end(), same)) {
      fail(item.position, "extends",
           "got " + describe(item) + ", a cycle: that file is being read already; remove it");
    }
    if (++files_ > kMaxFiles) {
      fail(item.position, "extends",
           "more than " + std::to_string(kMaxFiles) + " files are extended; merge some of them");
    }
  }

  std::vector<fs::path> open_;  // files whose extends is being read, outermost first
  int files_ = 0;
};

void place(Value& value, const Position& position) {
  value.position = position;
  for (Value& item : value.items) place(item, position);
  for (Member& member : value.members) {
    member.position = position;
    place(member.value, position);
  }
}

Value text_value(const std::string& text) {
  Value value;
  value.kind = Kind::kString;
  value.string = text;
  return value;
}

// Whether the text itself is the value: that of a key whose value is a string, if it is not quoted.
bool is_plain_text(const std::vector<std::string>& parts, const std::string& text) {
  const Section* const section = find_section(parts[0]);
  const Key* const key =
      section == nullptr || parts.size() != 2 ? nullptr : find_key(section->keys, parts[1]);
  return key != nullptr && is_string(key->type) && text.find_first_of("\"'") != 0;
}

// A text that is not a TOML value is taken as a string, unless it begins like an array, a table or
// a quoted string.
Value override_value(const Override& override, const std::vector<std::string>& parts,
                     const Position& position) {
  const std::string& text = override.value;
  if (is_plain_text(parts, text)) return text_value(text);
  const bool one_line = text.find_first_of("\r\n#") == std::string::npos;
  try {
    Value parsed = parse_toml("value = " + text, "--set");
    if (one_line && parsed.members.size() == 1) return parsed.members.front().value;
  } catch (const ConfigurationError&) {
  }
  if (text.empty() || !one_line || text.find_first_of("[{\"'") == 0) {
    fail(position, override.key,
         "got " + toml_string(shorten(text)) +
             ", expected a TOML value on one line, like 3, 0.1, true, word, [1, 2] or \"a text\"");
  }
  return text_value(text);
}

std::vector<std::string> key_parts(const Override& override, const Position& position) {
  std::vector<std::string> parts(1);
  for (const char c : override.key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const bool empty =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
  if (empty || parts.size() < 2 || parts.size() > 3 || parts[0] == extends_key().name) {
    fail(position, override.key, "wrong key, expected section.key=value, like training.epochs=3");
  }
  return parts;
}

// Wraps a value into one table for each name: {a: {b: value}}.
Value wrap(const std::vector<std::string>& parts, Value value, const Position& position) {
  for (size_t i = parts.size(); i-- > 0;) {
    Value table;
    table.members.push_back({parts[i], position, std::move(value)});
    value = std::move(table);
  }
  place(value, position);
  return value;
}

// What the user wrote, without the value, which may be long.
Position place_of(const Override& override) {
  std::string text = override.option;
  if (text.empty()) text = "--set" + (override.key.empty() ? "" : " " + shorten(override.key));
  return {std::make_shared<const std::string>(std::move(text)), 0, 0};
}

bool names_other_data(const Value& base, const Value& later) {
  const auto text = [](const Value& table, const char* key) {
    const Member* member = table.find(key);
    return member == nullptr ? std::string() : member->value.string;
  };
  const bool named = later.find("name") != nullptr || later.find("format") != nullptr;
  return named && (text(base, "name") != text(later, "name") ||
                   text(base, "format") != text(later, "format"));
}

// Removes from `base` what `later` replaces: the other key of an exclusive pair and the keys that
// belong to it, which are the input of other layers and everything that describes another data set.
void drop_replaced(Value& base, const Value& later, const std::string& section) {
  if (section == "model" && later.find("preset") != nullptr) base.remove("input");
  if (section == "dataset" && names_other_data(base, later)) {
    for (const char* key :
         {"path", "target_path", "validation_path", "validation_target_path", "features", "target",
          "task", "samples", "classes", "mean", "std", "standardize", "tokenizer", "tokenizer_path",
          "token_type", "stride", "invalid_utf8"}) {
      base.remove(key);
    }
    std::erase_if(base.members, [](const Member& m) { return m.value.is(Kind::kTable); });
  }
  for (const Exclusive& pair : exclusives()) {
    if (pair.section != section) continue;
    if (later.find(pair.first) != nullptr) base.remove(pair.second);
    if (later.find(pair.second) != nullptr) base.remove(pair.first);
  }
}

void put(Value& table, Member member) {
  if (Member* old = table.find(member.key)) {
    *old = std::move(member);
  } else {
    table.members.push_back(std::move(member));
  }
}

// Puts a key into a section. Of a table of a plugin ([device.cpu], for example), the options are
// put one by one.
void put_key(Member& section, Member key) {
  Member* old = section.value.find(key.key);
  const bool options = has_plugin_tables(section.key) && old != nullptr &&
                       old->value.is(Kind::kTable) && key.value.is(Kind::kTable);
  if (!options) return put(section.value, std::move(key));
  for (Member& option : key.value.members) put(old->value, std::move(option));
}

void merge_section(Member& base, Member later) {
  drop_replaced(base.value, later.value, base.key);
  for (Member& member : later.value.members) put_key(base, std::move(member));
  base.value.position = later.value.position;
}

std::vector<std::string> presets_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string preset_file(const Value& name, const std::string& folder) {
  const std::vector<std::string> known = presets_in(folder);
  if (std::find(known.begin(), known.end(), name.string) == known.end()) {
    fail(name.position, "model.preset",
         "unknown preset " + toml_string(shorten(name.string)) +
             plugins::host::suggestion(name.string, known) + " (files of \"" + folder + "\")");
  }
  return (fs::path(folder) / (name.string + ".toml")).string();
}

}  // namespace

Value read_file(const std::string& path) {
  return FileReader().read(path, "cannot read configuration " + path);
}

Value read_text(std::string_view text, const std::string& file) {
  Value root = parse_toml(text, file);
  check_source(root);
  for (const Value* item : extended_files(root)) {
    fail(item->position, "extends",
         "got " + describe(*item) + ", but a text that is not in a file cannot extend others");
  }
  root.remove(extends_key().name);
  make_paths_absolute(root, fs::current_path());
  return root;
}

Value read_overrides(const std::vector<Override>& overrides) {
  Value all;
  all.position = {std::make_shared<const std::string>("--set"), 0, 0};
  for (const Override& override : overrides) {
    const Position position = place_of(override);
    const auto parts = key_parts(override, position);
    Value one = wrap(parts, override_value(override, parts, position), position);
    check_source(one);
    Member& section = one.members.front();
    if (Member* old = all.find(section.key)) {
      put_key(*old, std::move(section.value.members.front()));
    } else {
      all.members.push_back(std::move(section));
    }
  }
  check_source(all);
  make_paths_absolute(all, fs::current_path());
  return all;
}

void merge(Value& base, Value later) {
  for (Member& section : later.members) {
    if (Member* old = base.find(section.key)) {
      merge_section(*old, std::move(section));
    } else {
      base.members.push_back(std::move(section));
    }
  }
}

void expand_preset(Value& root, const std::string& preset_folder) {
  Member* model = root.find("model");
  Member* name = model == nullptr ? nullptr : model->value.find("preset");
  if (name == nullptr) return;
  check_value(name->value, *find_key(find_section("model")->keys, "preset"), "model.preset");
  if (name->value.string.empty()) return;
  const std::string path = preset_file(name->value, preset_folder);
  Value preset = parse_toml(read_bytes(path, "cannot read preset " + path), path);
  check_source(preset);
  for (const Member& member : preset.members) {
    if (member.key == "model" && member.value.find("preset") == nullptr) continue;
    fail(member.position, member.key, "a preset holds only [model] with input and layers");
  }
  if (Member* layers = preset.find("model")) {
    for (Member& member : layers->value.members) {
      if (model->value.find(member.key) == nullptr) model->value.members.push_back(member);
    }
  }
}

}  // namespace runtime::config
