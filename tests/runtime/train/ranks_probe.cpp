// A rank, or the launcher of all ranks, of a job that is traced:
//   ranks_probe FILE STEPS LEFT_OUT CONFIG [key=value]...
// Rank 0 writes the trace to FILE. LEFT_OUT is a bucket whose collective is left out; "-" means
// none. The exit code is that of `runtime`.
#include <cstdio>
#include <cstdlib>

#include "runtime/error.h"
#include "runtime/model/layer_types.h"
#include "tests/runtime/train/ranks_trace.h"

namespace {

using runtime::config::Override;

int run(int count, char** words) {
  runtime::train::TraceOptions options;
  options.arguments.assign(words + 1, words + count);
  options.steps = std::atoi(words[2]);
  if (std::string(words[3]) != "-") options.left_out = words[3];
  std::vector<Override> overrides;
  for (int i = 5; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--set") continue;  // the launcher passes its own settings this way
    const size_t equals = word.find('=');
    overrides.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  options.config = runtime::config::load(words[4], overrides, "", runtime::model::layer_types());
  const runtime::train::TraceResult result = runtime::train::record(options);
  if (!result.trace.tensors.empty()) runtime::data::write_safetensors(words[1], result.trace);
  return result.exit_code;
}

}  // namespace

int main(int count, char** words) {
  if (count < 5) return 2;
  try {
    return run(count, words);
  } catch (const runtime::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
