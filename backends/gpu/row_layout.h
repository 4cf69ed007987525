// The foreign layout of backends/gpu: matrices whose rows are padded to a multiple of 64 elements.
// Libraries of the vendors multiply with their fastest kernels only if the distance between rows is
// a multiple of 16 bytes ("cuBLAS", section "Tensor Core Usage"), which a vocabulary of 50,257 in
// 16 bits is not. cuBLAS wants the same of the length of rows (aligned_parts in gemm.h).
// rt/sdk/foreign_layout.h has the ids.
#ifndef BACKENDS_GPU_ROW_LAYOUT_H_
#define BACKENDS_GPU_ROW_LAYOUT_H_

#include <string>
#include <vector>

#include "backends/gpu/plan.h"
#include "rt/sdk/foreign_layout.h"

namespace backends::gpu {

// The libraries' fastest kernels want rows that begin at multiples of this many bytes.
inline constexpr int64_t kRowAlignment = 16;

// Elements from one row to the next, of a tensor in the canonical or in a row layout.
inline int64_t row_stride(const rt_tensor_desc& t) {
  if (rt::sdk::is_row_layout(t.layout)) return rt::sdk::row_length(t.layout);
  return t.rank > 0 ? t.dims[t.rank - 1] : 1;
}
// Bytes that the tensor takes in its layout, the canonical or a row layout.
uint64_t stored_bytes(const rt_tensor_desc& t);
// Throws RT_ERROR_INVALID_ARGUMENT unless the layout is the canonical one, or a row layout that
// fits the tensor.
void expect_known_layout(const rt_tensor_desc& t);
// The text for rt_kernel_api.layout_name.
std::string layout_name(const rt_tensor_desc& t);

bool has_row_layout(const Operation& op);  // any operand
// Whether each row begins at a multiple of kRowAlignment.
bool has_aligned_rows(const rt_tensor_desc& matrix);

// `copy` between canonical and row layouts.
Kernel make_row_copy(const Operation& op);

// The row layout in which a product should have this matrix: the canonical one if its rows are
// aligned already, or if the matrix is too small to matter.
uint64_t layout_for_products(const rt_tensor_desc& matrix);

// A description with other layouts.
class Relaid {
 public:
  // RT_LAYOUT_ANY becomes what `choose` says; all other layouts stay.
  using Choose = uint64_t (*)(const rt_tensor_desc&);
  Relaid(const Operation& op, Choose choose);
  // All row layouts become canonical, for those who only check shapes. Throws as
  // expect_known_layout does, and RT_ERROR_UNSUPPORTED if the operation takes no row layout there.
  static Relaid canonical(const Operation& op);

  const rt_op_desc* desc() const { return &desc_; }
  bool operator==(const Relaid& other) const;

 private:
  explicit Relaid(const Operation& op);
  std::vector<rt_tensor_desc> tensors_;  // inputs, then outputs
  std::vector<const rt_tensor_desc*> addresses_;
  rt_op_desc desc_;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ROW_LAYOUT_H_
