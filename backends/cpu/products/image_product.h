// Products of the patches of an image and weights that were packed long before: convolutions, and
// products of matrices whose right operand stays the same for many launches.
#ifndef BACKENDS_CPU_PRODUCTS_IMAGE_PRODUCT_H_
#define BACKENDS_CPU_PRODUCTS_IMAGE_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/products/product.h"

namespace backends::cpu::products {

// The kernels that split operands for the matrix unit; nullptr where split_kernels() is.
const SplitKernels* split_image_kernels();

// x [N,H,W,C] * w [O,KH,KW,C] -> y [N,P,Q,O]. A matrix of N rows and C columns is an image of one
// pixel for each row.
struct ImageSizes {
  int64_t n = 1, h = 1, w = 1, c = 1, o = 1, kh = 1, kw = 1, p = 1, q = 1;
  int64_t stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0, dilation_h = 1, dilation_w = 1;

  int64_t rows() const { return n * p * q; }
  int64_t taps() const { return kh * kw; }
  int64_t depth() const { return taps() * c; }
  double flops() const {
    return 2.0 * static_cast<double>(rows()) * static_cast<double>(o) *
           static_cast<double>(depth());
  }
};

// The weights in the form in which the matrix unit reads them: a head of 64 bytes, then for each
// panel of columns all of its depth. If a number cannot be split, the head says so and the weights
// follow as they were.
class PackedWeights {
 public:
  // Weights of `o` columns of `taps` times `c` numbers. `by_rows`: they are stored as [depth][o],
  // else as [o][depth].
  PackedWeights(const SplitKernels& kernels, int64_t taps, int64_t c, int64_t o, bool by_rows);

  uint64_t bytes() const { return kHead + static_cast<uint64_t>(panels()) * panel_bytes(); }
  // Fills `packed`, which is aligned to 64 bytes and has bytes() bytes, from the weights.
  void pack(const float* weights, void* packed, int threads) const;

  int64_t panels() const { return (o_ + kernels_.table->columns - 1) / kernels_.table->columns; }
  // Steps of depth of one tap, and of all.
  int64_t steps_of_tap() const { return (c_ + kernels_.step - 1) / kernels_.step; }
  int64_t steps() const { return taps_ * steps_of_tap(); }
  uint64_t step_bytes() const {
    return static_cast<uint64_t>(kernels_.table->columns) *
           static_cast<uint64_t>(kernels_.step_bytes);
  }
  uint64_t panel_bytes() const { return static_cast<uint64_t>(steps()) * step_bytes(); }
  static bool is_split(const void* packed) { return *static_cast<const int64_t*>(packed) == 0; }
  const char* panel(const void* packed, int64_t number) const {
    return static_cast<const char*>(packed) + kHead + static_cast<uint64_t>(number) * panel_bytes();
  }
  // Writes a panel as numbers, [steps() * step][columns], packed by `exact`.
  void numbers(const void* packed, int64_t panel, const KernelTable& exact, float* to) const;

 private:
  static constexpr uint64_t kHead = 64;
  Matrix matrix(const void* weights) const;

  const SplitKernels& kernels_;
  int64_t taps_, c_, o_;
  bool by_rows_;
};

// The product. Like Product, it gives the same bits for any number of threads.
class ImageProduct {
 public:
  ImageProduct(const SplitKernels& kernels, const KernelTable& exact, const ImageSizes& sizes,
               const PackedWeights& weights, int threads);

  uint64_t workspace_bytes() const { return static_cast<uint64_t>(parts()) * part_bytes_; }
  // Computes y from x and packed weights. `workspace` is aligned to 64 bytes. `finish` may be
  // empty, see Finish; a row is a pixel of y. Allocates nothing.
  //
  // Equivalent to: torch.nn.functional.conv2d on images in channels_last.
  void run(const float* x, const void* packed, float* y, void* workspace,
           const Finish& finish) const;

 private:
  struct Part {
    int64_t row, rows, panel, panels;
  };
  struct Job;    // the operands of one part
  struct Block;  // rows that are multiplied together, and where they begin in the split image
  int parts() const { return row_parts_ * column_parts_; }
  Part part(int number) const;
  int64_t pixel_bytes() const { return weights_.steps_of_tap() * kernels_.step_bytes; }
  uint64_t image_bytes(int64_t row, int64_t rows) const;
  int64_t tap_offset(int64_t tap) const;
  bool split_image(const Job& job, Block& block) const;
  bool pack_left(const Job& job, const Block& block, int64_t step, int64_t steps) const;
  void multiply(const Job& job, const Block& block, int64_t step, int64_t steps) const;
  bool run_block(const Job& job, Block& block) const;
  bool run_part(const Job& job) const;
  void run_exactly(const Job& job) const;
  void read_patch(const float* x, int64_t row, float* to) const;

  const SplitKernels& kernels_;
  const KernelTable& exact_;
  ImageSizes sizes_;
  PackedWeights weights_;
  // How the left operand is read: as a matrix of one row for each pixel, which is packed; in place,
  // from the split image; else it is gathered from the split image.
  bool is_matrix_ = false, in_place_ = false;
  std::vector<int64_t> taps_;  // offsets of the taps in the split image
  int64_t line_pixels_ = 0;    // of the split image, with its padding
  int64_t rows_at_once_ = 1, steps_at_once_ = 1;
  int row_parts_ = 1, column_parts_ = 1;
  uint64_t left_ = 0, part_bytes_ = 0;  // in the memory of a part: where packed rows begin; all
};

}  // namespace backends::cpu::products

#endif  // BACKENDS_CPU_PRODUCTS_IMAGE_PRODUCT_H_
