// Checks that the runtime knows no plugin by its name: what it has to know comes through the
// contract, so that a plugin from elsewhere can do everything that those of this tree can do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kNoPlugins = {"mesh", "shared_memory"};

// The folders of plugins have the names of the plugins. The others are libraries.
std::set<std::string> plugin_names() {
  std::set<std::string> names;
  for (const char* folder : {"backends", "collectives"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(SOURCE_FOLDER) / folder))
      if (entry.is_directory() && !kNoPlugins.contains(entry.path().filename().string()))
        names.insert(entry.path().filename().string());
  }
  return names;
}

// These names are also words of English, so only their use as names counts.
const std::set<std::string> kWords = {"local", "reference"};

// Files whose texts, which people read, name plugins as examples.
const std::map<std::string, const char*> kExamples = {
    {"runtime/config/schema_sections.cpp", "documents values that the keys may have"},
    {"runtime/cli/parse.cpp", "has values of a key in the help of --nproc"},
    {"runtime/cli/command_line.cpp", "has command lines that can be copied, in the help"},
    {"runtime/system/control_groups.cpp", "names the kernel's controller of processors"},
};

struct Literal {
  std::string text;  // without its quotes; \" is written as "
  size_t line = 0;   // counted from 1
};

std::string text_of(const SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines)
    text += (line.starts_with("#include") ? "" : line) + "\n";  // an include is no literal
  return text;
}

// The string literals of a file, without those in comments.
std::vector<Literal> literals(const SourceFile& file) {
  const std::string text = text_of(file);
  std::vector<Literal> list;
  // Skips to behind the next `end`.
  const auto behind = [&](const std::string& end, size_t from) {
    const size_t at = text.find(end, from);
    return at == std::string::npos ? text.size() : at + end.size();
  };
  const auto line_of = [&](size_t at) {
    return static_cast<size_t>(
               std::count(text.begin(), text.begin() + static_cast<long>(at), '\n')) +
           1;
  };
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 2, "//") == 0) {
      i = behind("\n", i);
    } else if (text.compare(i, 2, "/*") == 0) {
      i = behind("*/", i + 2);
    } else if (text.compare(i, 2, "R\"") == 0) {
      const size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      const size_t end = behind(close, open);
      list.push_back({text.substr(open + 1, end - close.size() - open - 1), line_of(i)});
      i = end;
    } else if (text[i] == '"' || (text[i] == '\'' && i > 0 && std::isalnum(text[i - 1]) == 0)) {
      const char quote = text[i];  // the ' of 1'000 follows a digit
      Literal literal{"", line_of(i)};
      for (++i; i < text.size() && text[i] != quote; ++i) {
        if (text[i] == '\\') ++i;
        literal.text += text[i];
      }
      ++i;
      if (quote == '"') list.push_back(literal);
    } else {
      ++i;
    }
  }
  return list;
}

// Finds the uses of a text in which it means the plugin: it is the whole text, in quotes, the value
// of a key backend, or followed by the index of a device; or it is a word of the text and no word
// of English. A part of a path, of an option like --mpi or of another name is no word.
std::regex uses_of(const std::string& name) {
  std::string pattern =
      "^" + name + "$|[\"']" + name + "[\"']|backend ?= ?" + name + "\\b|\\b" + name + ":[0-9]";
  if (!kWords.contains(name)) pattern += "|(^|[^\\w/.-])" + name + "($|[^\\w/-])";
  return std::regex(pattern);
}

std::vector<std::string> findings(const SourceFile& file) {
  static const std::map<std::string, std::regex> uses = [] {
    std::map<std::string, std::regex> all;
    for (const std::string& name : plugin_names()) all.emplace(name, uses_of(name));
    return all;
  }();
  std::vector<std::string> list;
  for (const Literal& literal : literals(file)) {
    for (const auto& [name, use] : uses) {
      if (literal.text.find(name) != std::string::npos && std::regex_search(literal.text, use))
        list.push_back(file.path + ":" + std::to_string(literal.line) + " names the plugin '" +
                       name + "': \"" + literal.text + "\"");
    }
  }
  return list;
}

TEST(PluginNames, AreTakenFromTheFolders) {
  for (const char* name : {"cpu", "reference", "cuda", "local", "gloo", "mpi"})
    EXPECT_TRUE(plugin_names().contains(name)) << name;
}

TEST(PluginNames, AreFoundWhereTheyAreMeant) {
  for (const char* code :
       {R"(if (backend == "gloo") {)", R"(x = {"cuda", 1};)", R"(f("a", "reference");)",
        R"(throw E("set it to \"local\"");)", R"(throw E("like cpu:0");)", R"(c = '"'; d = "mpi";)",
        R"(n = 1'000; d = "cpu";)", R"(t = "--set comm.backend=local";)",
        R"(t = "with nccl it works"; /* "gloo" */)", R"(t = "no plugin 'reference'";)"})
    EXPECT_EQ(findings({"a.cpp", {code}}).size(), 1u) << code;
  for (const char* code : {R"(x = "a";  // "gloo" or cpu:0)", R"(#include "backends/cpu/cpu.h")",
                           R"(x = "local_rank";)", R"(x = "a local folder, by reference";)",
                           R"(x = "srun --mpi=pmix";)", R"(x = "/sys/devices/system/cpu/cpu0";)",
                           R"(x = "mpiexec";)", R"(x = "name_cpu.toml";)"})
    EXPECT_TRUE(findings({"a.cpp", {code}}).empty()) << code;
}

// Tensor::cpu() of runtime/tensor is a documented name of the library's interface.
TEST(PluginNames, NoneInTheRuntime) {
  for (const SourceFile& file : source_files("runtime")) {
    if (file.path.starts_with("runtime/tensor/") || kExamples.contains(file.path)) continue;
    for (const std::string& finding : findings(file)) ADD_FAILURE() << finding;
  }
}

TEST(PluginNames, EveryExceptionIsNeeded) {
  std::set<std::string> needed;
  for (const SourceFile& file : source_files("runtime"))
    if (!findings(file).empty()) needed.insert(file.path);
  for (const auto& [path, reason] : kExamples)
    EXPECT_TRUE(needed.contains(path)) << path << " " << reason;
}

}  // namespace
}  // namespace house
