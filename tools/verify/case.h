// A case: one operation that a device has computed wrong, as a folder that contains everything
// about it and can be passed on. README.md describes the format.
#ifndef TOOLS_VERIFY_CASE_H_
#define TOOLS_VERIFY_CASE_H_

#include <map>
#include <string>
#include <vector>

#include "tools/verify/isolated.h"
#include "tools/verify/judge.h"

namespace runtime::verify {

// The candidate with which the recorded device computed the operation.
struct CaseCandidate {
  std::string implementation;
  std::vector<std::string> input_layouts, output_layouts;  // names, for readers only
};

// Where the operation was found.
struct CaseOrigin {
  std::string config, layer, phase, against;
  int64_t step = 0;      // from 0
  int64_t rows = 0;      // first dimension of the first operand before rows were removed
  size_t operation = 0;  // position in the program, from 0, out of `operations`
  size_t operations = 0;
  std::vector<std::string> inputs, outputs;  // names of the values
};

// The device on which the operation was found.
struct CaseDevice {
  std::string id, name, plugin, plugin_version, plugin_build;
  int32_t threads = 0;
  std::map<std::string, std::string> options;  // of [device.<plugin>]
};

// One case in memory; it owns its tensors.
struct Case {
  IsolatedOperation isolated;  // with the layouts and the algorithm of the recorded device
  CaseCandidate candidate, forward_candidate;
  CaseOrigin origin;
  CaseDevice device;
  std::string definition;     // id of the device that computed `expected`
  std::vector<Bound> bounds;  // one for each output
  HostTensors expected;       // float64 or integers; for a cast, the type of its output
  HostTensors actual;         // what the recorded device computed
};

// Throws ConfigurationError unless a case can be written to `folder`, which must not exist or be
// empty.
void check_case_folder(const std::string& folder);

// Makes the folder and writes the case. case.json is written last, so that an incomplete folder is
// not taken for a case. Throws DataError.
void write_case(const std::string& folder, const Case& c);

// Reads a case. Nothing in the folder is trusted: types, sizes and indices are checked before
// anything is allocated or computed. Throws DataError that names the file, what it has and what was
// expected.
Case read_case(const std::string& folder);

// Returns, for example, "avg_pool2d of [4, 24, 24, 20]".
std::string describe(const plugins::host::Operation& operation);

// Convert between a case and the text of case.json, which does not contain the tensors. `path` is
// for messages. case_from_json() throws DataError.
std::string case_to_json(const Case& c);
Case case_from_json(const std::string& text, const std::string& path);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_CASE_H_
