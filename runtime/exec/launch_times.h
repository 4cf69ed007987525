// Keeps what launches of candidates took, and decides which candidates are equally fast.
#ifndef RUNTIME_EXEC_LAUNCH_TIMES_H_
#define RUNTIME_EXEC_LAUNCH_TIMES_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace runtime::exec {

// So many numbers each candidate has before those that are close are measured again.
inline constexpr size_t kFirstTimes = 3;

// The times of one candidate: nanoseconds of a launch, one number for each batch of launches.
class LaunchTimes {
 public:
  void add(double ns) { ns_.push_back(ns); }
  size_t size() const { return ns_.size(); }
  // The first quartile, because other work only makes launches longer; infinite without numbers.
  double time() const;
  // How far the shortest one is from it, in nanoseconds: what is known no better.
  double scatter() const;
  // How far the median is above the shortest one, in nanoseconds: what other work has added.
  double spread() const;

 private:
  // The number behind 1/divisor of the sorted ones.
  double at(size_t divisor) const;

  std::vector<double> ns_;
};

// Measures those candidates again whose times lie within a few percent of the fastest one, or
// within what the numbers scatter, in turns (A B A B): for two rounds at least, then until the
// times differ by more than the scatter, for eight rounds at most. `measure(i)` adds a number to
// times[i], and returns false where nothing more shall be measured.
void repeat_close(std::vector<LaunchTimes>& times, const std::function<bool(size_t i)>& measure);

// The nanoseconds with which the candidates are compared: their times, but candidates that are as
// fast as the fastest one, within their scatter, get its time and follow each other in the order of
// their estimates by a millionth. Where nothing was measured again, those within a few percent are
// as fast. So the same one is chosen in every run. `estimates` are
// nanoseconds; 0 and less stand for unknown ones.
std::vector<double> settled(const std::vector<LaunchTimes>& times,
                            const std::vector<double>& estimates);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_LAUNCH_TIMES_H_
