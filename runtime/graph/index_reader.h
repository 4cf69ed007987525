// Reads the indices of formulas: whole numbers that depend on loop variables.
#ifndef RUNTIME_GRAPH_INDEX_READER_H_
#define RUNTIME_GRAPH_INDEX_READER_H_

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/graph/constant.h"
#include "runtime/graph/scanner.h"

namespace runtime::graph {

// Reads "p * stride + k - 1" at the place of a scanner. `number` returns what a name stands for
// that is no loop variable, and may throw. The scanner is borrowed.
class IndexReader {
 public:
  IndexReader(Scanner& scan, std::vector<std::string> variables,
              std::function<int64_t(const std::string& name)> number)
      : scan_(scan), variables_(std::move(variables)), number_(std::move(number)) {}

  Linear sum() {
    const bool negative = scan_.accept("-");
    Linear result = (negative ? -1 : 1) * product();
    for (;;) {
      if (scan_.accept("+")) {
        result = result + product();
      } else if (scan_.accept("-")) {
        result = result + -1 * product();
      } else {
        return result;
      }
    }
  }

 private:
  static constexpr int kMostLevels = 100;     // of parentheses
  static constexpr double kMost = 1ll << 31;  // of a number; no index of 32 bits is larger

  void expect_small(int64_t a, int64_t b) const {
    if (std::abs(static_cast<double>(a) * static_cast<double>(b)) > kMost)
      scan_.fail("counts with a number that is too large");
  }

  Linear product() {
    Linear result = factor();
    while (scan_.accept("*")) {
      const Linear next = factor();
      if (!next.is_number() && !result.is_number()) scan_.fail("multiplies two loop variables");
      const Linear& other = next.is_number() ? result : next;
      const int64_t number = next.is_number() ? next.first : result.first;
      for (const int64_t f : other.factors) expect_small(number, f);
      expect_small(number, other.first);
      result = number * other;
    }
    return result;
  }

  Linear factor() {
    Linear result{0, std::vector<int64_t>(variables_.size(), 0)};
    if (scan_.accept("(")) {
      if (++level_ > kMostLevels) scan_.fail("is nested too deeply");
      result = sum();
      --level_;
      scan_.expect(")");
      return result;
    }
    if (scan_.is_digit()) {
      const double number = scan_.number();
      if (!(number <= kMost)) scan_.fail("counts with a number that is too large");
      result.first = std::llround(number);
      return result;
    }
    const std::string name = scan_.identifier();
    for (size_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i] != name) continue;
      result.factors[i] = 1;
      return result;
    }
    result.first = number_(name);
    return result;
  }

  Scanner& scan_;
  std::vector<std::string> variables_;
  std::function<int64_t(const std::string&)> number_;
  int level_ = 0;
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_INDEX_READER_H_
