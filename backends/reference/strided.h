// Visits a dense result row by row while operands are read with other strides.
#ifndef BACKENDS_REFERENCE_STRIDED_H_
#define BACKENDS_REFERENCE_STRIDED_H_

#include <array>
#include <cstdint>

#include "backends/reference/check.h"

namespace backends::reference {

// A row is a run along the last dimension of `dims`. All offsets and steps are in elements.
template <size_t Operands>
class StridedRows {
 public:
  using Offsets = std::array<int64_t, Operands>;

  StridedRows(const Dims& dims, const std::array<Dims, Operands>& strides) {
    rank_ = dims.empty() ? 1 : static_cast<int>(dims.size());
    for (int d = 0; d < rank_; ++d) {
      dims_[d] = dims.empty() ? 1 : dims[d];
      for (size_t k = 0; k < Operands; ++k) strides_[k][d] = dims.empty() ? 0 : strides[k][d];
    }
  }

  int64_t length() const { return dims_[rank_ - 1]; }
  // The step of operand k along a row.
  int64_t step(size_t k) const { return strides_[k][rank_ - 1]; }

  // Calls body(offset in the dense result, offsets of the operands) for the first element of every
  // row.
  template <typename Body>
  void for_each(Body&& body) const {
    for (int d = 0; d < rank_; ++d) {
      if (dims_[d] == 0) return;
    }
    std::array<int64_t, RT_MAX_RANK> index{};
    Offsets offsets{};
    for (int64_t out = 0;; out += length()) {
      body(out, offsets);
      int d = rank_ - 2;
      for (; d >= 0; --d) {
        for (size_t k = 0; k < Operands; ++k) offsets[k] += strides_[k][d];
        if (++index[d] < dims_[d]) break;
        for (size_t k = 0; k < Operands; ++k) offsets[k] -= strides_[k][d] * dims_[d];
        index[d] = 0;
      }
      if (d < 0) return;
    }
  }

 private:
  int rank_ = 1;
  std::array<int64_t, RT_MAX_RANK> dims_{};
  std::array<std::array<int64_t, RT_MAX_RANK>, Operands> strides_{};
};

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_STRIDED_H_
