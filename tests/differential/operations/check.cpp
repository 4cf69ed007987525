// Runs a case in all variants and twice, and throws where numbers or bits differ.
#include "tests/differential/operations/check.h"

#include <algorithm>
#include <stdexcept>

#include "plugins/host/error.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace differential {
namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using conformance::Execution;
using conformance::InPlace;
using conformance::Violation;

// Fill bytes of fresh memory in the two runs: the first gives NaN, the second an ordinary number
// (0.75 in float32).
constexpr int kFirstFresh = conformance::kFreshNan;
constexpr int kSecondFresh = 0x3F;

// The type of exception for wrong numbers.
class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs one prefix of the post-operations of a case on one device.
class Trial {
 public:
  Trial(host::Device& device, const Case& c, const Operands& operands, Oracle& oracle,
        Outcome& outcome)
      : device_(device), case_(c), operands_(operands), oracle_(oracle), outcome_(outcome) {
    operands_.inputs.resize(c.operation.inputs.size());
  }

  void run(const host::Support& support) {
    guarded("", [&] {
      for (const rt_tensor_desc& output : case_.operation.outputs)
        allowed_.push_back(conformance::allowed_error(case_, output, support));
      if (case_.forward) return run_backwards();
      for (const host::Operation& operation : conformance::variants(device_, case_.operation))
        run_variant(operation, nullptr);
    });
  }

 private:
  // Runs `body` and records an exception that it throws as a finding about `implementation`.
  template <typename Body>
  void guarded(const std::string& implementation, Body body) {
    const auto found = [&](const char* kind, const std::exception& e) {
      outcome_.findings.push_back({kind, implementation, e.what()});
    };
    try {
      body();
    } catch (const Wrong& e) {
      found("wrong", e);
    } catch (const Violation& e) {
      found("broken", e);
    } catch (const std::exception& e) {
      found("refused", e);
    }
  }

  void run_backwards() {
    for (const host::Operation& forward : conformance::variants(device_, *case_.forward)) {
      guarded("forward", [&] {
        Execution first(device_, forward, nullptr);
        host::Operation backward = case_.operation;
        backward.forward = first.plan();
        for (const host::Operation& operation : conformance::variants(device_, backward))
          run_variant(operation, &first);
      });
    }
  }

  void run_variant(const host::Operation& operation, Execution* forward) {
    std::string implementation;
    guarded("", [&] {
      Execution execution(device_, operation, forward);
      implementation = execution.info().implementation;
      outcome_.implementations.insert(implementation);
      ++outcome_.candidates;
      const std::string where = conformance::describe(operation, execution, device_) + ": ";
      guarded(implementation, [&] { run_twice(execution, forward, where); });
      for (const InPlace& pair : conformance::in_place_pairs(execution)) {
        guarded(implementation, [&] {
          conformance::expect_equal_sizes(device_, operation, pair);
          const std::string text = rt::sdk::format("with output %u in the memory of input %u, ",
                                                   pair.begin()->first, pair.begin()->second);
          compare(execution.run(operands_.inputs, pair), where + text);
        });
      }
    });
  }

  // Runs the plan twice. Memory that nothing has written holds NaN in the first run and a number in
  // the second.
  void run_twice(Execution& execution, Execution* forward, const std::string& where) {
    const auto run = [&](int fresh) {
      if (forward != nullptr) forward->run(operands_.forward_inputs, {}, fresh);
      return execution.run(operands_.inputs, {}, fresh);
    };
    const std::vector<Bytes> first = run(kFirstFresh);
    compare(first, where);
    const std::vector<Bytes> second = run(kSecondFresh);
    if ((execution.info().flags & RT_PLAN_DETERMINISTIC) != 0 && first != second) {
      throw Violation(where +
                      "claims to be deterministic, but two runs differ, whose outputs, workspace "
                      "and saved data held other bytes before");
    }
    compare(second, where + "in the second run, ");
  }

  void compare(const std::vector<Bytes>& actual, const std::string& where) {
    for (size_t j = 0; j < actual.size(); ++j) {
      const auto wrong = difference(case_.operation.outputs[j].dtype, actual[j],
                                    oracle_.expected(j), oracle_.allowance(j, allowed_[j]));
      if (wrong) throw Wrong(where + "output " + std::to_string(j) + " " + *wrong);
    }
  }

  host::Device& device_;
  const Case& case_;
  Operands operands_;
  Oracle& oracle_;
  Outcome& outcome_;
  std::vector<double> allowed_;  // one tolerance for each output
};

// A case with each prefix of its post-operations, and the expected results of each; computed on
// first use.
class Prefixes {
 public:
  Prefixes(host::Device& reference, const Recipe& recipe, const Case& whole,
           const Operands& operands)
      : reference_(reference), recipe_(recipe), operands_(operands) {
    for (uint32_t k = 0; k <= whole.operation.post_ops.size(); ++k) {
      cases_.push_back(whole);
      conformance::trim_post_operations(cases_.back(), k);
    }
    oracles_.resize(cases_.size());
  }
  size_t size() const { return cases_.size(); }
  const Case& operator[](size_t k) const { return cases_[k]; }
  const Operands& operands() const { return operands_; }
  Oracle& oracle(size_t k) {
    if (!oracles_[k]) {
      Operands own = operands_;
      own.inputs.resize(cases_[k].operation.inputs.size());
      oracles_[k] = std::make_unique<Oracle>(reference_, recipe_, cases_[k], own);
      if (k > 0) oracles_[k]->forgive_range_of(oracle(k - 1));
    }
    return *oracles_[k];
  }

 private:
  host::Device& reference_;
  const Recipe& recipe_;
  Operands operands_;
  std::vector<Case> cases_;
  std::vector<std::unique_ptr<Oracle>> oracles_;
};

// False if the device refuses the operation. A refusal without a reason is a finding.
bool supports(host::Device& device, const Case& c, Outcome& outcome) {
  for (const host::Operation* operation : {c.forward ? &*c.forward : nullptr, &c.operation}) {
    if (operation == nullptr) continue;
    const host::Support support = device.query(*operation);
    if (support.level != RT_SUPPORT_REFUSED) continue;
    outcome.status = "refused";
    outcome.reason = support.reason;
    if (support.reason.empty())
      outcome.findings.push_back({"broken", "", "refuses without a reason"});
    return false;
  }
  return true;
}

void check_on(host::Device& device, Prefixes& prefixes, Outcome& outcome) {
  if (!supports(device, prefixes[0], outcome)) return;
  for (size_t k = 0; k < prefixes.size(); ++k) {
    const host::Support support = device.query(prefixes[k].operation);
    if (support.level == RT_SUPPORT_REFUSED) {
      const std::string text =
          rt::sdk::format("does the operation, but refuses it with %zu post-operations: ", k);
      outcome.findings.push_back({"broken", "", text + support.reason});
      return;
    }
    if (support.post_ops_fused < k) return;  // then no longer prefix is fused either
    if (support.post_ops_fused > k) {
      outcome.findings.push_back(
          {"broken", "", "fuses more post-operations than it was asked for"});
      return;
    }
    Trial(device, prefixes[k], prefixes.operands(), prefixes.oracle(k), outcome).run(support);
  }
}

bool is_named_like(const std::filesystem::path& file, const std::string& plugin) {
  return file.extension() == ".so" && file.filename().string().find(plugin) != std::string::npos;
}

}  // namespace

std::shared_ptr<host::Plugin> load_plugin(const std::string& name,
                                          const std::vector<std::filesystem::path>& folders) {
  std::string searched;
  for (const std::filesystem::path& folder : folders) {
    searched += (searched.empty() ? "" : ", ") + folder.string();
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!is_named_like(entry.path(), name)) continue;
      auto plugin = host::Plugin::load(std::filesystem::canonical(entry.path()), {});
      if (plugin->name() == name) return plugin;
    }
  }
  throw std::runtime_error("the plugin \"" + name + "\" was looked for in " + searched +
                           " and is not there; --plugin-path names its folder");
}

Checker::Checker(const DeviceChoice& choice)
    : choice_(choice), plugin_(load_plugin(choice.plugin, choice.folders)) {
  reference_ = host::Device::open(load_plugin("reference", choice.folders), 0);
  device(1);
}

host::Device& Checker::device(int32_t threads) {
  std::shared_ptr<host::Device>& device = devices_[threads];
  if (!device) device = host::Device::open(plugin_, choice_.index, {threads, choice_.options});
  return *device;
}

Outcome Checker::check(const Recipe& recipe) {
  Outcome outcome;
  const std::optional<Case> c = build_case(recipe);
  if (!c) {
    outcome.status = "invalid";
    return outcome;
  }
  try {
    Prefixes prefixes(*reference_, recipe, *c, make_operands(recipe, *c));
    for (const int32_t threads : std::set<int32_t>{1, recipe.threads})
      check_on(device(threads), prefixes, outcome);
  } catch (const std::exception& e) {
    outcome.findings.push_back({"refused", "", e.what()});
  }
  if (!outcome.findings.empty()) outcome.status = "found";
  if (outcome.status.empty()) outcome.status = "passed";
  return outcome;
}

}  // namespace differential
