// Starts a child for a group of checks, reads its results line by line, and goes on behind a crash.
#include "plugins/check/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plugins/host/child.h"
#include "plugins/host/printable.h"

namespace plugins::check {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// One child and the checks that it has to run.
class Run {
 public:
  Run(const std::vector<Check>& checks, const ChildCommand& command, size_t first, size_t end,
      const std::function<void(const Row&)>& report)
      : checks_(checks),
        command_(command),
        next_(first),
        report_(report),
        child_(command.program, arguments(first, end), Clock::time_point::max()) {}

  // Follows the child to its end. Returns the index of the first check that has no row yet.
  size_t follow(std::vector<Row>& rows) {
    for (;;) {
      const bool open = wait_and_read();
      take_lines(rows);
      if (late_ || !open) break;
    }
    if (begun_) {
      rows.push_back(broken_row());
      report_(rows.back());
      ++next_;
    }
    return next_;
  }

  // Why the child has run nothing, if it has not.
  std::string ending() { return ending_of_child(); }

 private:
  std::vector<std::string> arguments(size_t first, size_t end) const {
    std::vector<std::string> all = command_.arguments;
    all.insert(all.end(), {"--child", std::to_string(first), std::to_string(end)});
    return all;
  }

  // Waits for what the child writes, until the check in progress is late. Returns false once the
  // child has closed its answer.
  bool wait_and_read() {
    pollfd descriptors[] = {{child_.answer_descriptor(), POLLIN, 0},
                            {child_.output_descriptor(), POLLIN, 0}};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(since_ + command_.limit - Clock::now());
    late_ = left.count() <= 0;
    if (late_) return true;
    ::poll(descriptors, 2, static_cast<int>(left.count()));
    if (child_.output_descriptor() >= 0) child_.read_output();
    return child_.read_answer();
  }

  void take_lines(std::vector<Row>& rows) {
    const std::string& answer = child_.answer();
    for (size_t end; (end = answer.find('\n', read_)) != std::string::npos; read_ = end + 1) {
      const json line = json::parse(answer.substr(read_, end - read_), nullptr, false);
      since_ = Clock::now();
      if (line.is_discarded()) continue;  // the plugin wrote into the answer
      if (line.contains("begin")) {
        begun_ = true;
        continue;
      }
      rows.push_back(row_of(line));
      report_(rows.back());
      begun_ = false;
      ++next_;
    }
  }

  Row row_of(const json& line) const {
    return {checks_[next_].group, checks_[next_].name,
            static_cast<Outcome>(line.at("outcome").get<int>()), line.at("detail"),
            line.at("seconds")};
  }

  std::string ending_of_child() {
    const std::string ending = child_.end();
    if (child_.output_descriptor() >= 0) child_.read_output();
    const std::string words = child_.last_words();
    const std::string how = late_ ? fmt::format("did not end within {} s", command_.limit.count())
                            : ending.empty() ? "closed the pipe to this program"
                                             : ending;
    return how + (words.empty() ? "" : "; the last line that it printed: " + words);
  }

  Row broken_row() {
    const double seconds = std::chrono::duration<double>(Clock::now() - since_).count();
    return {checks_[next_].group, checks_[next_].name, Outcome::kFailed,
            "the process in which the check ran " + ending_of_child() +
                "; a plugin answers with a status and never ends, crashes or blocks its process",
            seconds};
  }

  const std::vector<Check>& checks_;
  const ChildCommand& command_;
  size_t next_;
  const std::function<void(const Row&)>& report_;
  host::Child child_;
  size_t read_ = 0;     // bytes of the answer that were taken
  bool begun_ = false;  // whether a check is in progress
  bool late_ = false;
  Clock::time_point since_ = Clock::now();
};

size_t end_of_group(const std::vector<Check>& checks, size_t first) {
  size_t end = first;
  while (end < checks.size() && checks[end].group == checks[first].group) ++end;
  return end;
}

void send(const json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t bytes = ::write(host::kAnswerDescriptor, text.data() + sent, text.size() - sent);
    if (bytes <= 0) ::_exit(1);  // nobody reads any more
    sent += static_cast<size_t>(bytes);
  }
}

// Texts of plugins stand in details, which may have several lines.
std::string printable_lines(const std::string& text) {
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += (begin == 0 ? "" : "\n") + host::printable(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

// Runs one check. What it throws is its result.
std::pair<Outcome, std::string> run_check(const Check& check, Context& context) {
  try {
    return {Outcome::kPassed, check.body(context)};
  } catch (const Skip& skip) {
    return {Outcome::kSkipped, skip.what()};
  } catch (const std::exception& error) {
    return {Outcome::kFailed, error.what()};
  }
}

}  // namespace

std::vector<Row> run_in_children(const std::vector<Check>& checks, const ChildCommand& command,
                                 const std::function<void(const Row&)>& report) {
  std::vector<Row> rows;
  for (size_t first = 0; first < checks.size();) {
    const size_t end = end_of_group(checks, first);
    Run run(checks, command, first, end, report);
    const size_t next = run.follow(rows);
    if (next == first)
      throw std::runtime_error("the process for the checks of the group '" + checks[first].group +
                               "' " + run.ending() + " before it began");
    first = next;
  }
  return rows;
}

void run_as_child(const std::vector<Check>& checks, Context& context, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    send({{"begin", i}});
    const auto begin = Clock::now();
    const auto [outcome, detail] = run_check(checks[i], context);
    send({{"outcome", static_cast<int>(outcome)},
          {"detail", printable_lines(detail)},
          {"seconds", std::chrono::duration<double>(Clock::now() - begin).count()}});
  }
}

}  // namespace plugins::check
