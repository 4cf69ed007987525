// Reads the tables of a sweep's file, with errors at their place.
#include "tools/sweep/sweep_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>

#include "plugins/host/nearest.h"
#include "runtime/config/metrics.h"
#include "runtime/error.h"

namespace tools::sweep {

namespace {

namespace fs = std::filesystem;
using runtime::config::describe;
using runtime::config::fail;
using runtime::config::Member;
using runtime::config::Value;
using Kind = Value::Kind;

constexpr int64_t kMaxTrials = 100000;

[[noreturn]] void wrong(const Member& member, const std::string& path,
                        const std::string& expected) {
  fail(member.value.position, path,
       "wrong value: got " + describe(member.value) + ", expected " + expected);
}

// A table of which every key must be known.
class Table {
 public:
  using Reader = std::function<void(const Member&, const std::string&)>;  // the value, its path
  using Readers = std::vector<std::pair<std::string, Reader>>;

  static void read(const Value& table, const std::string& path, const Readers& readers) {
    for (const Member& member : table.members) {
      const auto found = std::find_if(readers.begin(), readers.end(),
                                      [&](const auto& r) { return r.first == member.key; });
      const std::string own = path.empty() ? member.key : path + "." + member.key;
      if (found == readers.end()) {
        std::vector<std::string> names;
        for (const auto& [name, reader] : readers) names.push_back(name);
        fail(member.position, own, "unknown key" + plugins::host::suggestion(member.key, names));
      }
      found->second(member, own);
    }
  }
};

Table::Reader text(std::string& target) {
  return [&target](const Member& member, const std::string& path) {
    if (!member.value.is(Kind::kString)) wrong(member, path, "a string");
    target = member.value.string;
  };
}

// A string of which there are two: `target` is whether it is the second.
Table::Reader one_of(bool& target, const std::string& no, const std::string& yes) {
  return [=, &target](const Member& member, const std::string& path) {
    const bool is_yes = member.value.string == yes;
    if (!member.value.is(Kind::kString) || (!is_yes && member.value.string != no))
      wrong(member, path, "\"" + no + "\" or \"" + yes + "\"");
    target = is_yes;
  };
}

template <class Integer>
Table::Reader integer(Integer& target, int64_t least, int64_t most) {
  return [=, &target](const Member& member, const std::string& path) {
    const int64_t value = member.value.integer;
    if (!member.value.is(Kind::kInteger) || value < least || value > most)
      wrong(member, path, fmt::format("an integer, at least {}, at most {}", least, most));
    target = static_cast<Integer>(value);
  };
}

bool is_number(const Value& value) {
  return value.is(Kind::kInteger) || (value.is(Kind::kNumber) && std::isfinite(value.number));
}

double number(const Value& value) {
  return value.is(Kind::kInteger) ? static_cast<double>(value.integer) : value.number;
}

Table::Reader seconds(double& target) {
  return [&target](const Member& member, const std::string& path) {
    if (!is_number(member.value) || number(member.value) < 0)
      wrong(member, path, "a number of seconds, at least 0");
    target = number(member.value);
  };
}

Table::Reader strings(std::vector<std::string>& target) {
  return [&target](const Member& member, const std::string& path) {
    if (!member.value.is(Kind::kArray)) wrong(member, path, "a list of strings");
    for (const Value& item : member.value.items) {
      if (!item.is(Kind::kString)) wrong(member, path, "a list of strings");
      target.push_back(item.string);
    }
  };
}

// Calls `leaf` for each "section.key" below a table; both `"a.b" = 1` and `a.b = 1` are read so.
void each_setting(const Value& table, const std::string& prefix,
                  const std::function<bool(const std::string&, const Member&)>& leaf) {
  for (const Member& member : table.members) {
    const std::string key = prefix.empty() ? member.key : prefix + "." + member.key;
    const bool nested = member.value.is(Kind::kTable);
    if (key.find('.') != std::string::npos && leaf(key, member)) continue;
    if (!nested) {
      fail(member.position, key, "wrong key: expected section.key, as in \"optimizer.lr\"");
    }
    each_setting(member.value, key, leaf);
  }
}

// Keys that the sweep sets itself.
void refuse_own_keys(const std::string& key, const Member& member) {
  for (const char* own : {"job.dump_folder", "job.overwrite", "metrics.progress", "metrics.jsonl",
                          "checkpoint.resume"})
    if (key == own) fail(member.position, key, "is set by the sweep itself; remove it");
}

Table::Reader settings(trials::Settings& target) {
  return [&target](const Member& table, const std::string& path) {
    if (!table.value.is(Kind::kTable)) wrong(table, path, "a table");
    each_setting(table.value, "", [&](const std::string& key, const Member& member) {
      refuse_own_keys(key, member);
      target.emplace_back(key, trials::to_json(member.value));
      return true;
    });
  };
}

void read_range(Parameter& parameter, const Member& member, const std::string& path) {
  const auto& ends = member.value.items;
  const bool integers = parameter.kind == Parameter::Kind::kInteger;
  if (!member.value.is(Kind::kArray) || ends.size() != 2 || !is_number(ends[0]) ||
      !is_number(ends[1]))
    wrong(member, path, "a list of two numbers");
  if (integers && (!ends[0].is(Kind::kInteger) || !ends[1].is(Kind::kInteger)))
    wrong(member, path, "a list of two integers");
  parameter.low = number(ends[0]);
  parameter.high = number(ends[1]);
  if (parameter.low > parameter.high) wrong(member, path, "the smaller number first");
  if (parameter.kind == Parameter::Kind::kLogUniform && parameter.low <= 0)
    wrong(member, path, "numbers above 0");
}

void read_values(Parameter& parameter, const Member& member, const std::string& path) {
  if (!member.value.is(Kind::kArray) || member.value.items.empty())
    wrong(member, path, "a list of at least one value");
  for (const Value& item : member.value.items) parameter.values.push_back(trials::to_json(item));
}

// Reads one of `[1, 2]`, `{ values = [1, 2] }`, `{ uniform = [0, 1] }` and so on. Returns false for
// a table that has none of these keys.
bool read_parameter(Parameter& parameter, const Member& member) {
  const std::string& key = parameter.key;
  if (member.value.is(Kind::kArray)) return read_values(parameter, member, key), true;
  if (!member.value.is(Kind::kTable) || member.value.members.size() != 1) return false;
  const Member& only = member.value.members.front();
  const std::string path = key + "." + only.key;
  if (only.key == "values") return read_values(parameter, only, path), true;
  if (only.key == "devices") {
    if (only.value.string != "usable") wrong(only, path, "\"usable\"");
    parameter.kind = Parameter::Kind::kDevices;
    return true;
  }
  const std::pair<const char*, Parameter::Kind> ranges[] = {
      {"uniform", Parameter::Kind::kUniform},
      {"log_uniform", Parameter::Kind::kLogUniform},
      {"integer", Parameter::Kind::kInteger}};
  for (const auto& [name, kind] : ranges) {
    if (only.key != name) continue;
    parameter.kind = kind;
    read_range(parameter, only, path);
    return true;
  }
  return false;
}

// In the order in which they were written, which the parser does not keep.
Table::Reader parameters(std::vector<Parameter>& target) {
  return [&target](const Member& table, const std::string& path) {
    if (!table.value.is(Kind::kTable)) wrong(table, path, "a table");
    std::map<std::pair<int, int>, Parameter> by_position;
    each_setting(table.value, "", [&](const std::string& key, const Member& member) {
      refuse_own_keys(key, member);
      Parameter parameter{key};
      if (!read_parameter(parameter, member)) {
        // The keys of a plugin have three parts: device.cuda.tf32.
        const bool has_plugins = key.starts_with("device.") || key.starts_with("comm.");
        if (member.value.is(Kind::kTable) && has_plugins) return false;
        wrong(member, key,
              "a list of values, or a table with one of values, uniform, log_uniform, integer and "
              "devices");
      }
      const runtime::config::Position& at = member.value.position;
      by_position.emplace(std::pair(at.line, at.column), std::move(parameter));
      return true;
    });
    for (auto& [position, parameter] : by_position) target.push_back(std::move(parameter));
  };
}

Table::Reader rungs(Halving& halving, const char* unit) {
  return [=, &halving](const Member& member, const std::string& path) {
    if (!halving.unit.empty()) fail(member.position, path, "give either steps or epochs, not both");
    halving.unit = unit;
    const char* const expected = "a list of at least two rising integers above 0";
    if (!member.value.is(Kind::kArray) || member.value.items.size() < 2)
      wrong(member, path, expected);
    for (const Value& item : member.value.items) {
      const int64_t last = halving.rungs.empty() ? 0 : halving.rungs.back();
      if (!item.is(Kind::kInteger) || item.integer <= last) wrong(member, path, expected);
      halving.rungs.push_back(item.integer);
    }
  };
}

Table::Reader table(Table::Readers readers) {
  return [readers = std::move(readers)](const Member& member, const std::string& path) {
    if (!member.value.is(Kind::kTable)) wrong(member, path, "a table");
    Table::read(member.value, path, readers);
  };
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.is_open() && !file.bad() && fs::is_regular_file(path)) return text.str();
  throw runtime::ConfigurationError(path + ": cannot be read; expected the TOML file of a sweep");
}

// What several keys together must fulfil.
void check(const Sweep& sweep, bool mode_is_known, const std::string& path) {
  const auto require = [&](bool holds, const std::string& key, const std::string& message) {
    if (!holds) fail({std::make_shared<const std::string>(path)}, key, message);
  };
  require(mode_is_known, "mode",
          "missing: whether \"min\" or \"max\" is better of monitor = \"" + sweep.monitor + "\"");
  require(!sweep.config.empty(), "config", "missing: the configuration whose keys are varied");
  require(!sweep.parameters.empty(), "parameters", "missing: the keys that are varied");
  require(!sweep.random || sweep.trials > 0, "search.trials",
          "missing: method = \"random\" needs the number of trials");
  require(sweep.random || sweep.trials == 0, "search.trials",
          "is not used by method = \"grid\", which tries every combination; remove it");
  for (const Parameter& p : sweep.parameters) {
    const bool list = p.kind == Parameter::Kind::kValues || p.kind == Parameter::Kind::kDevices;
    require(sweep.random || list, p.key,
            "a range needs method = \"random\"; for the grid, give a list of values");
    const auto same_key = [&](const auto& other) { return other.first == p.key; };
    require(std::none_of(sweep.set.begin(), sweep.set.end(), same_key), p.key,
            "is in [parameters] and in [set]; remove one of them");
  }
}

}  // namespace

Sweep read_sweep(const std::string& path) {
  const Value root = runtime::config::parse_toml(read_text(path), path);
  Sweep sweep;
  std::string description;  // for readers of the file
  bool maximize = false;
  const Table::Readers search = {{"method", one_of(sweep.random, "grid", "random")},
                                 {"trials", integer(sweep.trials, 1, kMaxTrials)},
                                 {"seed", integer(sweep.seed, 0, INT64_MAX)}};
  const Table::Readers halving = {{"steps", rungs(sweep.halving, "steps")},
                                  {"epochs", rungs(sweep.halving, "epochs")},
                                  {"factor", integer(sweep.halving.factor, 2, 1000)}};
  Table::read(root, "",
              {{"description", text(description)},
               {"config", text(sweep.config)},
               {"folder", text(sweep.folder)},
               {"monitor", text(sweep.monitor)},
               {"mode", one_of(maximize, "min", "max")},
               {"select", one_of(sweep.take_best, "last", "best")},
               {"parallel", integer(sweep.parallel, 1, 1024)},
               {"devices", strings(sweep.devices)},
               {"timeout_s", seconds(sweep.timeout_s)},
               {"set", settings(sweep.set)},
               {"search", table(search)},
               {"halving", table(halving)},
               {"parameters", parameters(sweep.parameters)}});
  const std::optional<bool> usual = runtime::config::larger_field_is_better(sweep.monitor);
  const bool is_given = root.find("mode") != nullptr;
  sweep.maximize = is_given ? maximize : usual.value_or(false);
  check(sweep, is_given || usual, path);
  sweep.name = fs::path(path).stem().string();
  sweep.config = (fs::path(path).parent_path() / sweep.config).lexically_normal().string();
  if (sweep.folder.empty()) sweep.folder = "outputs/sweeps/" + sweep.name;
  return sweep;
}

}  // namespace tools::sweep
