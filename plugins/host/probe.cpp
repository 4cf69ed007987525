// Starts plugin_probe for several libraries at once, and says of each why it cannot be used.
#include "plugins/host/probe.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <utility>

#include "plugins/host/answer.h"
#include "plugins/host/child.h"
#include "plugins/host/error.h"
#include "plugins/host/text.h"

namespace plugins::host {
namespace {

using Clock = Child::Clock;

constexpr std::size_t kMostChildren = 32;  // children that run at the same time

struct Job {
  std::size_t index;  // index of the file
  Child child;
};

std::vector<std::string> arguments_for(const CheckedFile& file, bool states) {
  return {file.named.string(),
          file.path.string(),
          std::to_string(file.identity.device),
          std::to_string(file.identity.inode),
          std::to_string(file.identity.bytes),
          std::to_string(file.identity.modified_ns),
          std::to_string(::getpid()),
          states ? "1" : "0"};
}

class Probe {
 public:
  Probe(const std::vector<CheckedFile>& files, const ProbeOptions& options)
      : files_(files), options_(options), results_(files.size()) {}

  std::vector<ProbeResult> run() {
    std::size_t next = 0;
    while (next < files_.size() || !jobs_.empty()) {
      while (next < files_.size() && jobs_.size() < kMostChildren) start(next++);
      wait();
      std::erase_if(jobs_, [&](Job& job) { return serve(job); });
    }
    return std::move(results_);
  }

 private:
  void start(std::size_t index) {
    jobs_.push_back({index, Child(options_.program, arguments_for(files_[index], options_.states),
                                  Clock::now() + options_.deadline)});
  }

  // Waits until a child writes or the first deadline has passed.
  void wait() {
    std::vector<pollfd> descriptors;
    Clock::time_point first = Clock::time_point::max();
    for (const Job& job : jobs_) {
      descriptors.push_back({job.child.answer_descriptor(), POLLIN, 0});
      descriptors.push_back({job.child.output_descriptor(), POLLIN, 0});  // poll() ignores -1
      first = std::min(first, job.child.deadline());
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
    ::poll(descriptors.data(), descriptors.size(),
           static_cast<int>(std::max<int64_t>(left.count(), 0)));
  }

  // Handles what a child has sent; returns true once its result is known.
  bool serve(Job& job) {
    Child& child = job.child;
    if (child.output_descriptor() >= 0) child.read_output();
    const bool open = child.read_answer();
    const Answer answer = read_answer(child.answer());
    const bool late = Clock::now() >= child.deadline();
    if (open && !late && !answer.complete() && !answer.garbage) return false;
    check_probe(answer, child, late);
    results_[job.index] = result_of(answer, child, files_[job.index], late);
    return true;
  }

  // Throws if something went wrong before the plugin was touched: that is a fault of plugin_probe.
  void check_probe(const Answer& answer, Child& child, bool late) const {
    if (answer.hello == encoding_version()) return;
    const std::string program = "the program that looks at plugins, " + options_.program.string();
    if (answer.hello || answer.garbage) {
      throw Error(RT_ERROR_UNAVAILABLE,
                  program + ", is of another build of the runtime; install both together");
    }
    const std::string ending = child.end();
    child.read_output();
    const std::string words = child.last_words();
    throw Error(RT_ERROR_UNAVAILABLE, program + ", " +
                                          (late || ending.empty() ? "did not begin" : ending) +
                                          " before it began" + (words.empty() ? "" : ": " + words));
  }

  ProbeResult result_of(const Answer& answer, Child& child, const CheckedFile& file,
                        bool late) const {
    if (answer.refusal) return {std::nullopt, *answer.refusal};
    if (answer.garbage)
      return {std::nullopt, "wrote into the answer of the process that looked at it"};
    if (answer.description) {
      try {
        PluginDescription description = decode(*answer.description);
        description.file = file;
        return {std::move(description), ""};
      } catch (const Error& error) {
        return {std::nullopt, error.what()};
      }
    }
    return {std::nullopt, without_answer(answer.step, child, late)};
  }

  std::string without_answer(const std::string& step, Child& child, bool late) const {
    const std::string ending = child.end();
    child.read_output();
    const std::string how = !ending.empty() ? "the process that looked at it " + ending
                            : late ? "did not answer within " + seconds_text(options_.deadline)
                                   : "closed the pipe through which it is looked at";
    const std::string words = child.last_words();
    return how + " while " + step + (words.empty() ? "" : "; it printed: " + words);
  }

  const std::vector<CheckedFile>& files_;
  const ProbeOptions& options_;
  std::vector<ProbeResult> results_;
  std::list<Job> jobs_;
};

}  // namespace

std::vector<ProbeResult> probe(const std::vector<CheckedFile>& files, const ProbeOptions& options) {
  return Probe(files, options).run();
}

}  // namespace plugins::host
