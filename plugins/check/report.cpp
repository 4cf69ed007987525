// Sums the rows of a check up, and writes them as text, JSON and JUnit.
#include "plugins/check/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugins/check/models.h"

namespace plugins::check {

namespace {

using nlohmann::ordered_json;

constexpr size_t kShownOperations = 6;

const char* word_of(Outcome outcome) {
  constexpr const char* kWords[] = {"passed", "skipped", "failed"};
  return kWords[static_cast<int>(outcome)];
}

std::string indented(const std::string& text, const char* indent) {
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += indent + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return result;
}

int count(const std::vector<Row>& rows, Outcome outcome) {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(),
                                        [&](const Row& row) { return row.outcome == outcome; }));
}

bool has_kernels(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.group == "kernels" && row.outcome != Outcome::kSkipped;
  });
}

std::string first_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kShownOperations);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string line_of(const ModelState& state) {
  const size_t all = state.own.size() + state.others.size() + state.faulty.size();
  std::string text =
      fmt::format("  {:<16}{:<8}{} of {} operations by kernels of the plugin", state.preset,
                  state.trains ? "trains" : "no", state.own.size(), all);
  if (!state.faulty.empty()) text += "; faulty: " + first_names(state.faulty);
  if (!state.others.empty())
    text += (state.trains ? "; composed: " : "; missing: ") + first_names(state.others);
  return text + "\n";
}

std::string models_text(const std::vector<Row>& rows) {
  std::string text = "\nModels (configs/presets):\n";
  for (const ModelState& state : model_states(rows)) text += line_of(state);
  const std::vector<std::string> next = next_operations(rows);
  return next.empty() ? text : text + "Write next: " + first_names(next) + "\n";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\n':
        result += "&#10;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

std::string line_of(const Row& row) {
  std::string text = fmt::format("{:<8}{:<12} {}", word_of(row.outcome), row.group, row.name);
  if (row.outcome == Outcome::kFailed) return text + "\n" + indented(row.detail, "    ");
  const std::string detail = row.detail.substr(0, row.detail.find('\n'));
  return text + (detail.empty() ? "" : ": " + detail) + "\n";
}

std::string summary_of(const std::vector<Row>& rows) {
  std::string text = has_kernels(rows) ? models_text(rows) : "";
  text += fmt::format("\n{} checks: {} passed, {} skipped, {} failed\n", rows.size(),
                      count(rows, Outcome::kPassed), count(rows, Outcome::kSkipped),
                      count(rows, Outcome::kFailed));
  for (const Row& row : rows) {
    if (row.outcome == Outcome::kFailed)
      text += fmt::format("failed: {}: {}\n", row.group, row.name);
  }
  const auto unusable = std::find_if(rows.begin(), rows.end(), [](const Row& row) {
    return row.outcome == Outcome::kSkipped && row.detail.find(kUnusable) != std::string::npos;
  });
  if (unusable != rows.end())
    text += "nothing that needs a device was tried: " + unusable->detail + "\n";
  return text;
}

std::string json_of(const Setup& setup, const std::vector<Row>& rows) {
  ordered_json all;
  all["library"] = setup.library.string();
  all["passed"] = count(rows, Outcome::kPassed);
  all["skipped"] = count(rows, Outcome::kSkipped);
  all["failed"] = count(rows, Outcome::kFailed);
  for (const Row& row : rows) {
    all["checks"].push_back({{"group", row.group},
                             {"name", row.name},
                             {"outcome", word_of(row.outcome)},
                             {"detail", row.detail},
                             {"seconds", row.seconds}});
  }
  if (has_kernels(rows)) {
    for (const ModelState& state : model_states(rows)) {
      all["models"].push_back({{"preset", state.preset},
                               {"trains", state.trains},
                               {"own", state.own},
                               {"others", state.others},
                               {"faulty", state.faulty}});
    }
    all["next"] = next_operations(rows);
  }
  return all.dump(2) + "\n";
}

std::string junit_of(const Setup& setup, const std::vector<Row>& rows) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" "
      "failures=\"{}\" skipped=\"{}\">\n",
      escaped(setup.library.filename().string()), rows.size(), count(rows, Outcome::kFailed),
      count(rows, Outcome::kSkipped));
  for (const Row& row : rows) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                        escaped(row.group), escaped(row.name), row.seconds);
    if (row.outcome == Outcome::kPassed) {
      text += "/>\n";
    } else {
      text +=
          fmt::format("><{} message=\"{}\"/></testcase>\n",
                      row.outcome == Outcome::kFailed ? "failure" : "skipped", escaped(row.detail));
    }
  }
  return text + "</testsuite>\n";
}

std::string why_not(const std::string& preset, const std::vector<Row>& rows) {
  for (const ModelState& state : model_states(rows)) {
    if (state.preset != preset || state.trains) continue;
    if (!state.faulty.empty()) return "faulty are " + first_names(state.faulty);
    return "missing are " + first_names(state.others);
  }
  return "";
}

int failures_in(const std::vector<Row>& rows) { return count(rows, Outcome::kFailed); }

}  // namespace plugins::check
