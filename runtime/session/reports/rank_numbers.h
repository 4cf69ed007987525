// The numbers of one rank, in its file and on its page for Prometheus.
#ifndef RUNTIME_SESSION_REPORTS_RANK_NUMBERS_H_
#define RUNTIME_SESSION_REPORTS_RANK_NUMBERS_H_

#include <map>
#include <string>

#include "runtime/train/reporter.h"

namespace runtime::session {

// Whose numbers they are.
struct RankName {
  std::string run;  // the configuration's name
  int rank = 0;
  std::string host;  // empty: unknown
};

// One JSON object with the rank, its host, the time (seconds since 1970) and what is known.
std::string rank_json(const RankName& name, double time, const train::Metrics& metrics);

// A page in the text format of Prometheus, version 0.0.4: every number that a line had, with its
// last value. One thread. Equivalent to: a registry of gauges of Prometheus' client libraries.
class RankPage {
 public:
  explicit RankPage(const RankName& name);
  void add(const train::Metrics& metrics);
  std::string text() const;

 private:
  struct Number {
    std::string help;
    bool counts;  // it only grows
    double value;
  };
  std::string labels_;
  std::map<std::string, Number> numbers_;  // by name
};

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_REPORTS_RANK_NUMBERS_H_
