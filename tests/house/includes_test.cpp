// Checks that the files of each folder include only files of the folders that they may depend on.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <regex>
#include <set>

#include "tests/house/source_files.h"

namespace house {
namespace {

// The room of an include: "runtime/graph/graph.h" -> "runtime/graph", "rt/kernel.h" ->
// "plugins/include", "rt/sdk/error.h" -> "plugins/sdk"; "" for everything outside the source tree.
std::string room_of_include(const std::string& include) {
  if (include.starts_with("rt/sdk/")) return "plugins/sdk";
  if (include.starts_with("rt/")) return "plugins/include";
  for (const char* top :
       {"runtime/", "plugins/", "backends/", "collectives/", "tests/", "tools/"}) {
    if (include.starts_with(top)) return SourceFile{include, {}}.room();
  }
  return "";
}

using Rooms = std::map<std::string, std::set<std::string>>;

Rooms include_graph(const std::string& folder) {
  Rooms graph;
  for (const SourceFile& file : source_files(folder)) {
    for (const std::string& include : file.includes()) {
      const std::string to = room_of_include(include);
      if (!to.empty() && to != file.room()) graph[file.room()].insert(to);
    }
  }
  return graph;
}

// The allowed includes of each room (a folder of runtime/ or plugins/). Every room may include
// the headers of kOfNoRoom. config, data, system and graph include no other room of
// runtime/, except that data uses system to write files and to ask for free memory, and tokenizer.
// config includes one header of plugins/host, see below.
const Rooms kAllowed = {
    {"runtime/system", {}},
    {"runtime/terminal", {}},
    {"runtime/config", {"plugins/host"}},
    // The sdk for rt/sdk/philox.h (data, exec), foreign_layout.h (graph), float16.h (exec, train).
    {"runtime/tokenizer", {}},
    {"runtime/data", {"runtime/system", "runtime/tokenizer", "plugins/include", "plugins/sdk"}},
    {"runtime/graph", {"plugins/include", "plugins/sdk"}},
    {"runtime/model", {"runtime/config", "runtime/graph"}},
    {"runtime/exchange",
     {"runtime/model", "runtime/graph", "runtime/config", "runtime/data", "runtime/system"}},
    {"runtime/parallel", {"runtime/graph"}},
    {"runtime/step",
     {"runtime/config", "runtime/model", "runtime/parallel", "runtime/graph", "plugins/include"}},
    {"runtime/watch", {"plugins/host", "plugins/include", "plugins/sdk"}},
    {"runtime/exec",
     {"runtime/graph", "runtime/watch", "runtime/system", "plugins/host", "plugins/include",
      "plugins/sdk"}},
    {"runtime/tensor", {"plugins/host", "plugins/include"}},
    {"runtime/train",
     {"runtime/config", "runtime/data", "runtime/model", "runtime/parallel", "runtime/step",
      "runtime/exec", "runtime/graph", "runtime/system", "runtime/terminal", "plugins/host",
      "plugins/sdk"}},
    {"runtime/launch",
     {"runtime/step", "runtime/parallel", "runtime/config", "runtime/exec", "runtime/watch",
      "runtime/system", "plugins/host", "plugins/validate"}},
    {"runtime/analysis",
     {"runtime/train", "runtime/step", "runtime/exec", "runtime/data", "runtime/parallel",
      "runtime/model", "runtime/graph", "runtime/config", "runtime/system", "plugins/host",
      "plugins/sdk", "plugins/include"}},  // the sdk for rt/sdk/operation.h
    {"runtime/session",
     {"runtime/launch", "runtime/analysis", "runtime/train", "runtime/step", "runtime/data",
      "runtime/config", "runtime/system", "runtime/terminal", "plugins/host", "plugins/sdk"}},
    {"runtime/cli",  // graph, to print operations and graphs for `plan`
     {"runtime/session", "runtime/launch", "runtime/analysis", "runtime/exchange", "runtime/train",
      "runtime/step", "runtime/model", "runtime/graph", "runtime/config", "runtime/data",
      "runtime/tokenizer", "runtime/system", "runtime/terminal", "plugins/host"}},
    {"plugins/include", {}},
    {"plugins/sdk", {"plugins/include"}},
    {"plugins/host", {"plugins/include"}},
    {"plugins/validate", {"plugins/host", "plugins/include", "plugins/sdk"}},
    {"plugins/conformance", {"plugins/host", "plugins/include", "plugins/sdk"}},
    {"plugins/check", {"plugins/conformance", "plugins/host", "plugins/include", "plugins/sdk"}},
    {"plugins/new", {"plugins/host"}},
    {"plugins/examples", {"plugins/include", "plugins/sdk"}},
};

// The headers of no room, which every room of runtime/ may include.
const std::set<std::string> kOfNoRoom = {"runtime/error.h", "runtime/median.h",
                                         "runtime/output_error.h", "runtime/row_of.h"};

void expect_allowed(const std::string& folder) {
  for (const auto& [room, targets] : include_graph(folder)) {
    if (kOfNoRoom.contains(room)) continue;
    const auto allowed = kAllowed.find(room);
    ASSERT_NE(allowed, kAllowed.end()) << room << " is a new room: say here what it may include";
    for (const std::string& to : targets) {
      if (kOfNoRoom.contains(to) && room.starts_with("runtime/")) continue;
      EXPECT_TRUE(allowed->second.contains(to)) << room << " includes " << to;
    }
  }
}

TEST(Includes, RoomsOfTheRuntimeKnowOnlyTheirNeighbours) { expect_allowed("runtime"); }
// A configuration is read without any plugin. Only the search for a misspelt name is shared.
TEST(Includes, TheConfigurationKnowsNoPlugin) {
  for (const SourceFile& file : source_files("runtime/config")) {
    for (const std::string& include : file.includes()) {
      if (room_of_include(include) != "plugins/host") continue;
      EXPECT_EQ(include, "plugins/host/nearest.h") << file.path;
    }
  }
}

TEST(Includes, TheContractDependsOnNothing) { expect_allowed("plugins"); }

void expect_no_circle(Rooms graph) {
  std::set<std::string> done, open;
  const std::function<void(const std::string&)> visit = [&](const std::string& from) {
    if (done.contains(from)) return;
    ASSERT_TRUE(open.insert(from).second) << "a circle through " << from;
    for (const std::string& to : graph[from]) visit(to);
    open.erase(from);
    done.insert(from);
  };
  const Rooms all = graph;
  for (const auto& [from, targets] : all) visit(from);
}

TEST(Includes, NoCirclesBetweenRooms) { expect_no_circle(include_graph("runtime")); }

// A header and the source of its name are one unit: what either includes, both need.
TEST(Includes, NoCirclesBetweenUnits) {
  const auto unit_of = [](std::string path) {
    for (const std::string root : {"plugins/include/", "plugins/sdk/"}) {
      if (path.starts_with(root)) path.erase(0, root.size());
    }
    return path.substr(0, path.rfind('.'));
  };
  Rooms graph;
  for (const char* folder : {"plugins", "runtime", "backends", "collectives"}) {
    for (const SourceFile& file : source_files(folder)) {
      if (file.path.ends_with(".cu")) continue;  // the kernels of a header's functions
      for (const std::string& include : file.includes()) {
        if (include.find('/') != std::string::npos && unit_of(include) != unit_of(file.path))
          graph[unit_of(file.path)].insert(unit_of(include));
      }
    }
  }
  EXPECT_GT(graph.size(), 400u) << "the files were not found";
  expect_no_circle(graph);
}

TEST(Includes, BackendsAndCollectivesKnowTheContractOnly) {
  for (const char* folder : {"backends", "collectives"}) {
    for (const auto& [room, targets] : include_graph(folder)) {
      for (const std::string& to : targets) {
        // The kernels of the reference are a library of pure functions. The backend gpu asks that
        // library whether an operation is valid, and simulated computes with it. cuda and rocm are
        // built from the sources of gpu; gloo and mpi link shared_memory, gloo also mesh.
        const bool definition =
            (room == "backends/gpu" || room == "backends/simulated") && to == "backends/reference";
        const bool built_from_it =
            (room == "backends/cuda" || room == "backends/rocm") && to == "backends/gpu";
        const bool library = ((room == "collectives/gloo" || room == "collectives/mpi" ||
                               room == "collectives/mesh") &&
                              to == "collectives/shared_memory") ||
                             (room == "collectives/gloo" && to == "collectives/mesh");
        EXPECT_TRUE(to == "plugins/include" || to == "plugins/sdk" || definition || built_from_it ||
                    library)
            << room << " includes " << to;
      }
    }
  }
}

// The libraries that runtime/ and plugins/ may include besides the standard library and POSIX, and
// the files that may do so.
const std::map<std::string, std::vector<std::string>> kLibraries = {
    {"toml++/", {"runtime/config/"}},
    {"nlohmann/",
     {"runtime/config/json_schema.cpp", "runtime/tokenizer/", "runtime/data/", "runtime/exchange/",
      "runtime/train/", "runtime/analysis/", "runtime/session/", "runtime/cli/", "plugins/check/"}},
    {"fmt/", {"runtime/cli/", "runtime/session/", "plugins/check/", "plugins/new/main.cpp"}},
    {"CLI/", {"runtime/cli/", "plugins/check/main.cpp", "plugins/new/main.cpp"}},
    {"zlib.h", {"runtime/data/"}},
    {"utf8proc.h", {"runtime/tokenizer/utf8.cpp"}},
    {"oniguruma.h", {"runtime/tokenizer/regex.cpp"}},
    {"libdeflate.h", {"runtime/data/crc32.cpp"}},
    {"png.h", {"runtime/data/image_png.cpp"}},
    {"jpeglib.h", {"runtime/data/image_jpeg.cpp"}},
    {"jerror.h", {"runtime/data/image_jpeg.cpp"}},
    {"hiredis/", {"runtime/launch/"}},
    {"pmix.h", {"runtime/launch/"}},
    {"arpa/", {"runtime/launch/"}},
    {"ifaddrs.h", {"runtime/launch/"}},
    {"net/", {"runtime/launch/"}},
    {"netdb.h", {"runtime/launch/", "runtime/session/reports/metrics_server.cpp"}},
    {"netinet/", {"runtime/launch/", "runtime/session/reports/metrics_server.cpp"}},
    {"microhttpd.h", {"runtime/session/reports/metrics_server.cpp"}},
    {"linux/magic.h", {"runtime/launch/file_store.cpp"}},
    {"dlfcn.h", {"plugins/host/", "runtime/session/reports/metrics_server.cpp"}},
    {"link.h", {"plugins/host/"}},
    {"execinfo.h", {"runtime/cli/crash.cpp"}},
    {"elf.h", {"plugins/check/library.cpp"}},
    {"malloc.h", {"plugins/check/context.cpp"}},
};
const std::set<std::string> kPosix = {"fcntl.h", "fnmatch.h", "pthread.h", "unistd.h",
                                      "errno.h", "time.h",    "signal.h",  "poll.h",
                                      "spawn.h", "pwd.h",     "grp.h"};

bool is_standard(const std::string& include) {
  static const std::regex c_plus_plus("[a-z_0-9]+"), sys("sys/[a-z]+\\.h"),
      c("(math|stdarg|stdatomic|stddef|stdint|stdio|stdlib|string|limits|float|assert)\\.h");
  return std::regex_match(include, c_plus_plus) || std::regex_match(include, sys) ||
         std::regex_match(include, c) || kPosix.contains(include);
}

TEST(Includes, NoHeaderOfAVendor) {
  for (const char* folder : {"runtime", "plugins"}) {
    for (const SourceFile& file : source_files(folder)) {
      if (file.path.starts_with("plugins/examples/"))
        continue;  // examples include their own files by name
      for (const std::string& include : file.includes()) {
        if (is_standard(include) || !room_of_include(include).empty() ||
            include.find("%s") != std::string::npos)
          continue;
        bool allowed = false;
        for (const auto& [prefix, places] : kLibraries) {
          if (!include.starts_with(prefix)) continue;
          for (const std::string& place : places) allowed |= file.path.starts_with(place);
        }
        EXPECT_TRUE(allowed) << file.path << " includes " << include;
      }
    }
  }
}

// A source file could declare a vendor's function itself, without an include. So no source file of
// runtime/ may contain the name of one.
TEST(Includes, NoNameOfAVendor) {
  static const std::regex names(
      R"(\b(dnnl_|dnnl::|cuda[A-Z]|cudnn[A-Z]|cublas|hip[A-Z][a-z]+[A-Z]|miopen|nccl[A-Z]|rccl[A-Z]|MPI_|gloo::))");
  for (const SourceFile& file : source_files("runtime")) {
    // This file names environment variables of launchers, not functions.
    if (file.path == "runtime/launch/environment.cpp") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      // A comment may say to which function of a vendor something is equivalent.
      const std::string code = file.lines[i].substr(0, file.lines[i].find("//"));
      EXPECT_FALSE(std::regex_search(code, names)) << file.path << ":" << i + 1;
    }
  }
}

}  // namespace
}  // namespace house
