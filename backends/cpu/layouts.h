// The foreign layouts of one opened device, from layout id to oneDNN memory description, and how
// oneDNN describes canonical tensors.
#ifndef BACKENDS_CPU_LAYOUTS_H_
#define BACKENDS_CPU_LAYOUTS_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backends/cpu/onednn.h"
#include "rt/common.h"

namespace backends::cpu {

// The same tensor in another layout.
inline rt_tensor_desc with_layout(rt_tensor_desc tensor, uint64_t layout) {
  tensor.layout = layout;
  return tensor;
}

// Canonical tensors in oneDNN's logical order of dimensions: image_desc is N,C,H,W over memory in
// NHWC, weights_desc [G,]O,I,H,W over memory in OHWI.
MemoryDesc image_desc(const rt_tensor_desc& tensor);
MemoryDesc weights_desc(const rt_tensor_desc& tensor, int64_t groups);
// A description with these dims and strides (in elements).
MemoryDesc strided_desc(const Dims& dims, const Dims& strides, DataType type = DataType::f32);
// The type of the elements of a float32 or bfloat16 tensor.
DataType onednn_type(const rt_tensor_desc& tensor);

// Do both descriptions place every element at the same byte? Strides of dimensions of one element
// do not count.
bool same_memory(const MemoryDesc& a, const MemoryDesc& b);

// One foreign layout of tensors of one shape.
struct Layout {
  MemoryDesc foreign;
  MemoryDesc canonical;      // the canonical layout, with the same logical dims
  uint64_t bytes = 0;        // of the foreign layout, padding included
  std::string name;          // oneDNN's notation, such as "aBcd16b"
  bool elementwise = false;  // see Provider::layout_is_elementwise
};

// Where the channels of an image are: the memory is [N][blocks][H][W][block], `block` being the
// consecutive channels of one pixel. NHWC has one block of C channels.
struct ImageView {
  int64_t n, h, w, c, block, blocks;
  // The first element of block `ib` of sample `in` at `pixel` (h * W + w).
  int64_t offset(int64_t in, int64_t ib, int64_t pixel) const {
    return ((in * blocks + ib) * h * w + pixel) * block;
  }
  // Elements of the buffer, padded channels included.
  int64_t elements() const { return n * blocks * h * w * block; }
};

// Thread-safe.
class Layouts {
 public:
  // Registers `foreign` and returns its id, or RT_LAYOUT_CANONICAL if `foreign` is the canonical
  // layout. The id is a hash of both descriptions, so it is the same in every process.
  uint64_t add(const MemoryDesc& foreign, const MemoryDesc& canonical);
  // nullptr if no call of add returned this id. The result lives as long as this object.
  const Layout* find(uint64_t id) const;

  // The view of an image [N,H,W,C] in its layout; empty if the layout is not one of channel blocks.
  std::optional<ImageView> image_view(const rt_tensor_desc& tensor) const;
  // The id of the layout [N][blocks][H][W][block] of an image of these dims; RT_LAYOUT_ANY if
  // `block` is not 1, 4, 8 or 16.
  uint64_t blocked_image(const rt_tensor_desc& tensor, int64_t block);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Layout>> layouts_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_LAYOUTS_H_
