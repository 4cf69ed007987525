// A case: one operation that a device got wrong, as a folder that says all about it and can be
// given away. README.md has the format.
#ifndef RUNTIME_ANALYSIS_CASE_H_
#define RUNTIME_ANALYSIS_CASE_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/analysis/isolated.h"
#include "runtime/analysis/judge.h"

namespace runtime::analysis {

// What the recorded device computed it with.
struct CaseCandidate {
  std::string implementation;
  std::vector<std::string> input_layouts, output_layouts;  // names, for people
};

// Where it was found.
struct CaseOrigin {
  std::string config, layer, phase, against;
  int64_t step = 0;      // from 0
  int64_t rows = 0;      // of the first operand as it was found, before it was cut down
  size_t operation = 0;  // its place in the program, from 0, of `operations`
  size_t operations = 0;
  std::vector<std::string> inputs, outputs;  // names of the values
};

struct CaseDevice {
  std::string id, name, plugin, plugin_version, plugin_build;
  int32_t threads = 0;
  std::map<std::string, std::string> options;  // [device.<plugin>]
};

struct Case {
  IsolatedOperation isolated;  // in the layouts and the algorithm of the recorded device
  CaseCandidate candidate, forward_candidate;
  CaseOrigin origin;
  CaseDevice device;
  std::string definition;  // the device that `expected` comes from
  std::vector<Bound> bounds;
  HostTensors expected;  // float64, or integers; of a cast its own type
  HostTensors actual;
};

// Throws ConfigurationError unless a case can be written there: nothing, or an empty folder.
void check_case_folder(const std::string& folder);

// Makes the folder; case.json is written last, so that half a case is none. Throws DataError.
void write_case(const std::string& folder, const Case& c);

// Nothing in the folder is believed: types, sizes and indices are checked before anything is
// allocated or computed. Throws DataError with file, what it has and what was expected.
Case read_case(const std::string& folder);

// "avg_pool2d of [4, 24, 24, 20]"
std::string describe(const plugins::host::Operation& operation);

// Case <-> case.json, without the tensors. `path` is for messages.
std::string case_to_json(const Case& c);
Case case_from_json(const std::string& text, const std::string& path);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_CASE_H_
