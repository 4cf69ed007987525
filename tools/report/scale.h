// An axis for the values of a setting, which are numbers or words.
#ifndef TOOLS_REPORT_SCALE_H_
#define TOOLS_REPORT_SCALE_H_

#include <string>
#include <vector>

#include "tools/plot/axis.h"

namespace tools::report {

// Numbers lie on a linear axis, or on a logarithmic one if the largest is 8 times the least or
// more; words lie at equal distances, in the order of their first appearance.
class Scale {
 public:
  // `values` as sweep.jsonl writes them (words in quotation marks); "" where a trial has none.
  explicit Scale(const std::vector<std::string>& values);

  // From 0 to 1; NaN for a value that is none of those above.
  double place(const std::string& value) const;

  struct Label {
    double place;
    std::string text;
  };
  const std::vector<Label>& labels() const { return labels_; }
  // Whether there are at least two different values.
  bool varies() const { return varies_; }

 private:
  void add_number_labels();
  bool numbers_ = true, varies_ = false;
  plot::Axis axis_;
  std::vector<std::string> words_;
  std::vector<Label> labels_;
};

// The text without the quotation marks of JSON.
std::string unquoted(const std::string& json);

}  // namespace tools::report

#endif  // TOOLS_REPORT_SCALE_H_
