// Lists the combinations of a grid, and samples settings by seed and number.
#include "tools/sweep/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "runtime/error.h"

namespace tools::sweep {

namespace {

using trials::Json;

constexpr size_t kMaxGrid = 100000;
// A sampled number has so many digits, so that it can be read and typed.
constexpr int kDigits = 4;

// A number from 0 to below 1. The distributions of the standard library differ from one library to
// another, and results must not.
double unit(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

Json sample(const Parameter& p, double u) {
  switch (p.kind) {
    case Parameter::Kind::kUniform:
      return trials::rounded(p.low + u * (p.high - p.low), kDigits);
    case Parameter::Kind::kLogUniform:
      return trials::rounded(std::exp(std::log(p.low) + u * std::log(p.high / p.low)), kDigits);
    case Parameter::Kind::kInteger:
      return static_cast<int64_t>(p.low + std::floor(u * (p.high - p.low + 1)));
    case Parameter::Kind::kValues:
    case Parameter::Kind::kDevices:
      break;
  }
  return p.values.at(static_cast<size_t>(u * static_cast<double>(p.values.size())));
}

std::vector<Trial> random_trials(const Sweep& sweep) {
  std::vector<Trial> list;
  for (int64_t number = 0; number < sweep.trials; ++number) {
    Trial trial;
    for (size_t place = 0; place < sweep.parameters.size(); ++place) {
      std::seed_seq seed{static_cast<uint32_t>(sweep.seed), static_cast<uint32_t>(sweep.seed >> 32),
                         static_cast<uint32_t>(number), static_cast<uint32_t>(place)};
      std::mt19937_64 engine(seed);
      trial.settings.emplace_back(sweep.parameters[place].key,
                                  sample(sweep.parameters[place], unit(engine)));
    }
    list.push_back(std::move(trial));
  }
  return list;
}

std::vector<Trial> grid(const Sweep& sweep) {
  std::vector<Trial> list = {{}};
  for (const Parameter& parameter : sweep.parameters) {
    std::vector<Trial> longer;
    if (list.size() * parameter.values.size() > kMaxGrid) {
      throw runtime::ConfigurationError(
          fmt::format("the grid has more than {} combinations; give fewer values, or set "
                      "search.method = \"random\"",
                      kMaxGrid));
    }
    for (const Trial& trial : list) {
      for (const Json& value : parameter.values) {
        longer.push_back(trial);
        longer.back().settings.emplace_back(parameter.key, value);
      }
    }
    list = std::move(longer);
  }
  return list;
}

}  // namespace

std::vector<Trial> make_trials(const Sweep& sweep) {
  return sweep.random ? random_trials(sweep) : grid(sweep);
}

std::vector<Json> usable_backends(const std::string& devices) {
  std::vector<Json> names;
  std::istringstream lines(devices);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, state;
    words >> id >> state;
    const Json name = id.substr(0, id.find(':'));
    if (state == "usable" && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace tools::sweep
