// What launches of the candidates of one operation took, and which candidates are equally fast.
#ifndef RUNTIME_EXEC_LAUNCH_TIMES_H_
#define RUNTIME_EXEC_LAUNCH_TIMES_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace runtime::exec {

// So many numbers each candidate has before those that are close are measured again.
inline constexpr size_t kFirstTimes = 3;

// The times of one candidate: nanoseconds of a launch, one number for each batch of launches. Of
// several numbers the median counts.
class LaunchTimes {
 public:
  void add(double ns) { ns_.push_back(ns); }
  size_t size() const { return ns_.size(); }
  double median() const;  // infinite without numbers
  // The median distance of the numbers from their median, in nanoseconds; 0 for fewer than two.
  double scatter() const;

 private:
  std::vector<double> ns_;
};

// Measures those candidates again whose medians lie within a few percent of the fastest one, or
// within what the numbers scatter, in turns (A B A B): for two rounds at least, then until the
// medians differ by more than the scatter, for eight rounds at most. `measure(i)` adds a number to
// times[i], and returns false where nothing more shall be measured.
void repeat_close(std::vector<LaunchTimes>& times, const std::function<bool(size_t i)>& measure);

// The nanoseconds with which the candidates are compared: the medians, but candidates that are as
// fast as the fastest one, within their scatter, get its time and follow each other in the order of
// their estimates by a millionth. Where nothing was measured again, those within a few percent are
// as fast. So the same one is chosen in every run. `estimates` are
// nanoseconds, <= 0: unknown.
std::vector<double> settled(const std::vector<LaunchTimes>& times,
                            const std::vector<double>& estimates);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_LAUNCH_TIMES_H_
