// The contents of a constant of a graph: whole numbers that follow from where an element lies, or
// numbers that a function gives.
#ifndef RUNTIME_GRAPH_CONSTANT_H_
#define RUNTIME_GRAPH_CONSTANT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace runtime::graph {

// A whole number that depends linearly on the position (i0, i1, ...) of an element:
// first + factors[0] i0 + factors[1] i1 + ...
struct Linear {
  int64_t first = 0;
  std::vector<int64_t> factors;  // one for each dimension

  bool is_number() const;  // whether it is the same everywhere
};
Linear operator+(Linear a, const Linear& b);
Linear operator*(int64_t factor, Linear a);

// A constant tensor. An element is the sum, over the coordinates, of the coordinate times its
// stride; it is -1 if a coordinate lies outside of 0 to its size - 1. The elements are therefore
// offsets into another tensor, of which each coordinate runs along one dimension. With them
// `embedding` copies slices, windows and transposes (an offset of -1 gives zeros), and
// `embedding_backward` adds them up again.
struct Constant {
  struct Coordinate {
    Linear at;
    int64_t size = 0, stride = 1;
  };
  std::vector<int64_t> dims;  // of the constant
  std::vector<Coordinate> coordinates;

  // If given, returns all elements in row-major order, and there are no coordinates. Any thread may
  // call it; it gives the same numbers each time.
  std::function<std::vector<double>()> numbers = nullptr;

  // All elements in row-major order: of coordinates, and of any constant.
  std::vector<int64_t> elements() const;
  std::vector<double> values() const;
  // Whether the elements are 0, 1, 2, ...
  bool counts_up() const;
  // Text that is equal for equal constants.
  std::string text() const;
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_CONSTANT_H_
