// The command verify: compares steps of two devices, of a record, or of another framework, and says
// where they differ.
#include "tools/verify/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "runtime/error.h"
#include "runtime/launch/device_watch.h"
#include "runtime/launch/open_device.h"
#include "runtime/train/open.h"
#include "runtime/train/options.h"
#include "runtime/train/run/stop_signal.h"
#include "runtime/train/schedule.h"
#include "tools/verify/compare_steps.h"
#include "tools/verify/foreign_record.h"

namespace runtime::verify {

namespace {

using nlohmann::ordered_json;

constexpr double kGiB = 1 << 30;
constexpr const char* kTolerance = "tolerance";  // in the metadata of a record
constexpr double kLargestTolerance = 2e-2;       // see StepTrace::tolerance()

// The batches and learning rates of the run, in order.
class Steps {
 public:
  explicit Steps(const Session& s)
      : loader_(s.data.train, train::train_loader_options(s.config, s.trainer->split())),
        schedule_(s.config, loader_.batches_per_epoch()) {}

  const data::Batch& next() { return loader_.next(); }
  double learning_rate(int64_t step) const { return schedule_.rate(step); }

 private:
  data::Loader loader_;
  train::Schedule schedule_;
};

void check_size(uint64_t bytes, int64_t steps, const VerifyArguments& arguments) {
  const double gib = static_cast<double>(bytes) * static_cast<double>(steps) / kGiB;
  if (gib <= arguments.max_gib) return;
  throw DataError(fmt::format(
      "verify: the values of {} take {:.2f} GiB of host memory, more than --max-gib {}; lower "
      "training.global_batch_size{}, or raise --max-gib",
      steps == 1 ? "a step" : fmt::format("{} steps", steps), gib, arguments.max_gib,
      steps == 1 ? "" : " or --steps"));
}

// Makes the programs of the same run on the device that `backend` names, "plugin" or
// "plugin:index", with initial parameters. A device without bfloat16 computes in float32, whose
// result has more correct digits. Nothing runs on another device: what is compared with must be
// what `backend` computes.
std::shared_ptr<train::StepPrograms> other_programs(const Session& s, const std::string& backend) {
  config::Config config = s.config;
  config.launch.devices = {backend};
  config.device.host_fallback.clear();
  auto device = launch::open_device(config, *s.rank.registry, 0, nullptr);
  if (config.training.mixed() && !config.training.scales_loss() &&
      (device->properties().compute_dtypes & RT_DTYPE_BIT(RT_BFLOAT16)) == 0) {
    config.training.mixed_precision = "none";
    std::cerr << "note: " << device->id() << " does not compute in bfloat16, it uses float32\n";
  }
  auto programs = std::make_shared<train::StepPrograms>(train::RankSetup(
      config, s.data.train->spec(), std::move(device), train::compile_options(config)));
  const train::Trainer sets_the_parameters(programs);
  return programs;
}

// The operations that the device refuses, so that its fallback device runs them.
std::set<std::string> fallback_operations(const Session& s) {
  std::set<std::string> operations;
  for (const graph::Node& node : s.programs->any_compiled().graph().nodes) {
    if (node.on_fallback) operations.insert(node.op);
  }
  return operations;
}

// Says which operations this command cannot tell anything about.
void say_fallback(const Session& s) {
  const std::set<std::string> operations = fallback_operations(s);
  if (operations.empty()) return;
  std::cerr << fmt::format(
      "note: {} refuses {}, so that {} runs {} (device.host_fallback); where these agree, it says "
      "nothing about {}\n",
      s.device->id(), fmt::join(operations, ", "), s.fallback->id(),
      operations.size() > 1 ? "them" : "it", s.device->id());
}

std::string where(const Difference& d) {
  return fmt::format("layer '{}', operation {}, tensor '{}' {}", d.layer, d.operation, d.tensor,
                     graph::to_string(d.dims));
}

ordered_json to_json(const Difference& d) {
  ordered_json samples = ordered_json::array();
  for (const Difference::Sample& s : d.samples) {
    // JSON cannot represent NaN and infinities, so they become null.
    samples.push_back({{"index", s.index}, {"actual", s.actual}, {"expected", s.expected}});
  }
  return {{"layer", d.layer}, {"operation", d.operation}, {"tensor", d.tensor},
          {"dims", d.dims},   {"relative", d.relative},   {"samples", samples}};
}

ordered_json to_json(const StepComparison& c) {
  ordered_json j = {
      {"step", c.step + 1},     {"loss", c.loss},         {"expected_loss", c.expected_loss},
      {"compared", c.compared}, {"left_out", c.left_out}, {"worst", to_json(c.worst)}};
  if (c.first) j["first"] = to_json(*c.first);
  if (!c.only_recorded.empty()) j["only_recorded"] = c.only_recorded;
  return j;
}

void print(const StepComparison& c) {
  say("step {}  loss {:.9g}, expected {:.9g}  {} values compared{}  worst {:.2e}: {}\n", c.step + 1,
      c.loss, c.expected_loss, c.compared,
      c.left_out > 0 ? fmt::format(", {} left out", c.left_out) : "", c.worst.relative,
      where(c.worst));
  std::fflush(stdout);
}

// Returns the message about a difference: where it is, how large it is, some of the numbers, and
// what to do.
std::string explain(const StepComparison& c, double tolerance, const std::string& actual,
                    const std::string& expected) {
  const Difference& d = *c.first;
  std::string text = fmt::format(
      "{} and {} differ first in step {}: {}: ||actual - expected|| / ||expected|| is "
      "{:.3g}, expected at most {:.3g}",
      actual, expected, c.step + 1, where(d), d.relative, tolerance);
  for (const Difference::Sample& s : d.samples) {
    text += fmt::format("\n  [{}]: {} has {:.9g}, {} has {:.9g}", fmt::join(s.index, ", "), actual,
                        s.actual, expected, s.expected);
  }
  return text +
         "\nnext: --reduce FOLDER searches for the operation that is at fault, --isolate tells "
         "whether "
         "it is this one or what came before it (one number that rounds to the other side of zero "
         "at "
         "a ReLU is enough), another --against which of the two is wrong, --rtol how much may "
         "differ";
}

// The report about steps that are compared one after the other.
class Report {
 public:
  Report(const Session& s, const VerifyArguments& arguments, std::string expected, double tolerance)
      : arguments_(arguments),
        actual_(s.device->id()),
        expected_(std::move(expected)),
        tolerance_(tolerance) {
    json_ = {{"config", s.config.name},
             {"device", actual_},
             {"against", expected_},
             {"rtol", tolerance}};
    if (const auto operations = fallback_operations(s); !operations.empty())
      json_["host_fallback"] = {{"device", s.fallback->id()}, {"operations", operations}};
  }

  // Returns false at the first difference.
  bool add(const StepComparison& c) {
    if (!arguments_.json) print(c);
    steps_.push_back(to_json(c));
    compared_ += c.compared;
    worst_ = std::max(worst_, c.worst.relative);
    if (c.first) failure_ = explain(c, tolerance_, actual_, expected_);
    return !c.first;
  }

  // Adds the finding of --reduce, which is about the last step.
  void add(Reducer::Finding finding) {
    json_["reduction"] = std::move(finding.json);
    // The finding says itself what to do next, so that part of the message about the difference is
    // removed.
    failure_ = failure_.substr(0, failure_.find("\nnext: "));
    failure_ += (failure_.empty() ? "" : "\n") + finding.text;
  }

  // Throws NumericError if there was a difference.
  void end() {
    json_["equal"] = failure_.empty();
    json_["worst"] = worst_;
    json_["steps"] = std::move(steps_);
    if (arguments_.json) {
      std::cout << json_.dump() << std::endl;
    } else if (failure_.empty()) {
      say("{} and {} agree: {} values, the worst differs by {:.2e}, allowed {:.2e}{}\n", actual_,
          expected_, compared_, worst_, tolerance_,
          arguments_.reduce.empty() ? "" : "; nothing is wrong, and nothing was written");
    }
    if (!failure_.empty()) throw NumericError("verify: " + failure_);
  }

 private:
  const VerifyArguments& arguments_;
  std::string actual_, expected_;
  double tolerance_;
  ordered_json json_, steps_ = ordered_json::array();
  size_t compared_ = 0;
  double worst_ = 0;
  std::string failure_;
};

CompareOptions compare_options(const VerifyArguments& arguments, double tolerance,
                               const std::string& source) {
  return {arguments.rtol > 0 ? arguments.rtol : tolerance, arguments.isolate, source};
}

// Returns the signal that ended it before it began to write the file, or 0. A signal that comes
// later waits for the file, so that no half of one is left behind.
int record(Session& s, const VerifyArguments& arguments, const train::StopSignal& stop) {
  Steps steps(s);
  StepTrace trace(*s.programs);
  data::TensorFile file;
  const int64_t count = arguments.steps > 0 ? arguments.steps : kVerifySteps;
  for (int64_t step = 0; step < count; ++step) {
    if (const int signal = stop.pending()) return signal;
    const data::Batch& batch = steps.next();
    if (step == 0) check_size(trace.bytes(batch), count, arguments);
    add_step(file, step, record_step(trace, batch, steps.learning_rate(step), step));
  }
  file.metadata = {{"device", s.device->id()},
                   {"config", s.config.name},
                   {kTolerance, fmt::format("{}", trace.tolerance_with_claims())}};
  data::write_safetensors(arguments.record, file);
  std::cout << arguments.record << ": " << count << " steps of " << s.device->id() << ", "
            << std::filesystem::file_size(arguments.record) << " bytes\nnext: runtime verify "
            << arguments.config.path << " --against " << arguments.record << std::endl;
  return 0;
}

// Compares one step after the other, until one differs.
class Comparison {
 public:
  Comparison(Session& s, const VerifyArguments& arguments, StepTrace& trace,
             const CompareOptions& options)
      : trace_(trace), options_(options), report_(s, arguments, options.source, options.tolerance) {
    if (!arguments.reduce.empty()) reducer_.emplace(s, arguments.reduce, options.source);
  }

  // Returns false if the step differs.
  bool add(const RecordedStep& expected, const data::Batch& batch, double rate, int64_t step) {
    last_ = compare_step(trace_, expected, batch, rate, step, options_);
    const bool equal = report_.add(last_);
    if (!reducer_) return equal;
    auto finding = reducer_->look_at({expected.state, options_.source, batch, rate, step}, equal);
    if (!finding) return true;
    report_.add(std::move(*finding));
    return false;
  }

  const StepComparison& last() const { return last_; }

  void end() { report_.end(); }

 private:
  StepTrace& trace_;
  const CompareOptions& options_;
  Report report_;
  std::optional<Reducer> reducer_;
  StepComparison last_;
};

// The tolerance of the device that has computed the recorded steps; 0 if the file is older than
// this entry.
double tolerance_of(const data::TensorFile& file) {
  const auto found = file.metadata.find(kTolerance);
  return found == file.metadata.end()
             ? 0
             : std::min(std::strtod(found->second.c_str(), nullptr), kLargestTolerance);
}

void against_steps(Session& s, const VerifyArguments& arguments, data::TensorFile file) {
  const int64_t recorded = count_steps(file);
  const int64_t count = arguments.steps > 0 ? arguments.steps : recorded;
  if (recorded < std::max<int64_t>(count, 1)) {
    throw DataError(fmt::format(
        "{} holds {} steps that `runtime verify --record` has written, expected at least {}; "
        "lower --steps, or record more of them",
        arguments.against, recorded, std::max<int64_t>(count, 1)));
  }
  Steps steps(s);
  StepTrace trace(*s.programs);
  const auto options = compare_options(
      arguments, std::max(trace.tolerance_with_claims(), tolerance_of(file)), arguments.against);
  Comparison comparison(s, arguments, trace, options);
  for (int64_t step = 0; step < count; ++step) {
    const data::Batch& batch = steps.next();
    const RecordedStep expected = take_step(file, step, arguments.against);
    if (!comparison.add(expected, batch, steps.learning_rate(step), step)) break;
  }
  comparison.end();
}

// Says which recorded values nothing was compared with.
void say_only_recorded(const StepComparison& c, const std::string& device) {
  if (c.only_recorded.empty()) return;
  std::cerr << fmt::format(
      "note: {} does not store {} of the recorded values, because it computes them within another "
      "operation: {}\n",
      device, c.only_recorded.size(), fmt::join(c.only_recorded, ", "));
}

void against_foreign(Session& s, const VerifyArguments& arguments, const ForeignRecord& record) {
  if (arguments.steps > 1)
    throw DataError(arguments.against + " holds one step of another framework; lower --steps to 1");
  Steps steps(s);
  const std::optional<data::Batch> recorded = record.batch(*s.programs);
  const data::Batch& batch = recorded ? *recorded : steps.next();
  const data::TensorFile weights = record.weights();
  if (!weights.tensors.empty()) s.trainer->set_weights(weights, arguments.against);
  StepTrace trace(*s.programs);
  const auto options = compare_options(arguments, trace.tolerance_with_claims(), arguments.against);
  Comparison comparison(s, arguments, trace, options);
  comparison.add(record.step(trace, *s.programs, batch), batch, steps.learning_rate(0), 0);
  say_only_recorded(comparison.last(), s.device->id());
  comparison.end();
}

// Runs each step on the other device first. The device that is checked then starts each step from a
// state of the other one, which is trusted.
void against_device(Session& s, const VerifyArguments& arguments) {
  const auto other = other_programs(s, arguments.against);
  Steps steps(s);
  StepTrace trace(*s.programs), expected(*other);
  const std::string name = other->setup().device->id();
  const auto options = compare_options(
      arguments, std::max(trace.tolerance_with_claims(), expected.tolerance_with_claims()), name);
  Comparison comparison(s, arguments, trace, options);
  const int64_t count = arguments.steps > 0 ? arguments.steps : kVerifySteps;
  for (int64_t step = 0; step < count; ++step) {
    const data::Batch& batch = steps.next();
    const double rate = steps.learning_rate(step);
    if (step == 0) check_size(expected.bytes(batch), 1, arguments);
    const RecordedStep recorded = record_step(expected, batch, rate, step);
    if (!comparison.add(recorded, batch, rate, step)) break;
  }
  comparison.end();
}

bool is_file(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".safetensors");
}

// A file that is compared with: steps of `verify --record`, or a step of another framework.
struct Recorded {
  data::TensorFile steps;
  std::optional<ForeignRecord> foreign = std::nullopt;

  explicit Recorded(const std::string& path) : steps(data::read_safetensors(path)) {
    if (ForeignRecord::is_one(steps)) foreign.emplace(std::move(steps), path);
  }
  // The batch of the record counts, not its size in the configuration, and other frameworks draw
  // other masks of dropout.
  void fit(config::Config& config) const {
    if (!foreign) return;
    config.model.dropout = 0;
    if (foreign->rows() > 0) config.training.global_batch_size = foreign->rows();
  }
  void compare(Session& s, const VerifyArguments& arguments) {
    foreign ? against_foreign(s, arguments, *foreign)
            : against_steps(s, arguments, std::move(steps));
  }
};

}  // namespace

// One rank computes the whole model, whatever mesh the configuration gives.
void run_verify(const VerifyArguments& arguments, Outcome& outcome) {
  if (!arguments.case_folder.empty()) return run_case(arguments);
  if (arguments.gradients && !arguments.config.path.empty()) return verify_gradients(arguments);
  if (arguments.config.path.empty() || arguments.against.empty() == arguments.record.empty()) {
    throw ConfigurationError(
        "verify: expected a CONFIG with either --against BACKEND or FILE, or --record FILE or "
        "--gradients; or "
        "--case FOLDER (runtime verify --help has examples)");
  }
  if (!arguments.reduce.empty()) check_case_folder(arguments.reduce);
  config::Config config = arguments.config.load();
  config.launch.ranks = 1;
  config.launch.devices.clear();
  config.parallelism = {};
  std::optional<Recorded> recorded;
  if (is_file(arguments.against)) recorded.emplace(arguments.against).fit(config);
  std::optional<train::StopSignal> stop;  // made before any thread
  if (!arguments.record.empty()) stop.emplace(train::StopSignal::Texts{}, launch::device_silence);
  int signal = 0;
  const auto body = [&](Session& s) {
    say_fallback(s);
    if (stop) {
      signal = record(s, arguments, *stop);
      return;
    }
    recorded ? recorded->compare(s, arguments) : against_device(s, arguments);
  };
  outcome.exit_code = session::run_sessions(config, cli::host_services(), outcome.arguments, body);
  if (signal != 0) outcome.exit_code = 128 + signal;
}

}  // namespace runtime::verify
