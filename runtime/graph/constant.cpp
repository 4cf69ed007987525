// Adds and compares linear functions of a position, and lists the numbers of a constant.
#include "runtime/graph/constant.h"

#include <algorithm>

namespace runtime::graph {

namespace {

int64_t value_at(const Linear& linear, const std::vector<int64_t>& position) {
  int64_t value = linear.first;
  for (size_t i = 0; i < position.size(); ++i) value += linear.factors[i] * position[i];
  return value;
}

// The next position in row-major order; false behind the last one.
bool advance(std::vector<int64_t>& position, const std::vector<int64_t>& dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++position[i] < dims[i]) return true;
    position[i] = 0;
  }
  return false;
}

}  // namespace

bool Linear::is_number() const {
  return std::all_of(factors.begin(), factors.end(), [](int64_t f) { return f == 0; });
}

Linear operator+(Linear a, const Linear& b) {
  a.first += b.first;
  for (size_t i = 0; i < a.factors.size(); ++i) a.factors[i] += b.factors[i];
  return a;
}

Linear operator*(int64_t factor, Linear a) {
  a.first *= factor;
  for (int64_t& f : a.factors) f *= factor;
  return a;
}

std::vector<int64_t> Constant::elements() const {
  std::vector<int64_t> result;
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  if (count == 0) return result;
  result.reserve(static_cast<size_t>(count));
  std::vector<int64_t> position(dims.size(), 0);
  do {
    int64_t element = 0;
    for (const Coordinate& c : coordinates) {
      const int64_t at = value_at(c.at, position);
      if (at < 0 || at >= c.size) {
        element = -1;
        break;
      }
      element += at * c.stride;
    }
    result.push_back(element);
  } while (advance(position, dims));
  return result;
}

std::vector<double> Constant::values() const {
  if (numbers) return numbers();
  const std::vector<int64_t> whole = elements();
  return {whole.begin(), whole.end()};
}

bool Constant::counts_up() const {
  std::vector<int64_t> step(dims.size(), 0);
  for (const Coordinate& c : coordinates) {
    int64_t least = c.at.first, most = c.at.first;
    for (size_t i = 0; i < dims.size(); ++i) {
      step[i] += c.at.factors[i] * c.stride;
      (c.at.factors[i] < 0 ? least : most) += c.at.factors[i] * (dims[i] - 1);
    }
    if (c.at.first != 0 || least < 0 || most >= c.size) return false;
  }
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && step[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

std::string Constant::text() const {
  std::string text = "constant";
  for (int64_t d : dims) text += '.' + std::to_string(d);
  for (const Coordinate& c : coordinates) {
    text += '/' + std::to_string(c.at.first);
    for (int64_t factor : c.at.factors) text += ',' + std::to_string(factor);
    text += '<' + std::to_string(c.size) + '*' + std::to_string(c.stride);
  }
  return text;
}

}  // namespace runtime::graph
