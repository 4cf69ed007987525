// The foreign layouts of one opened device: id -> oneDNN memory description. Also how canonical
// tensors look to oneDNN.
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

// Canonical tensors in oneDNN's logical order of dimensions.
MemoryDesc image_desc(const rt_tensor_desc& tensor);                    // N,C,H,W over NHWC
MemoryDesc weights_desc(const rt_tensor_desc& tensor, int64_t groups);  // [G,]O,I,H,W over OHWI
// dims and strides as given, float32.
MemoryDesc strided_desc(const Dims& dims, const Dims& strides);

// Do both describe the same bytes? Strides of dimensions of one element do not count.
bool same_memory(const MemoryDesc& a, const MemoryDesc& b);

struct Layout {
  MemoryDesc foreign;
  MemoryDesc canonical;  // the same logical dims
  uint64_t bytes = 0;
  std::string name;  // "aBcd16b"
  bool elementwise = false;
};

// Where the channels of an image are: blocks of `block` consecutive channels, each block holding
// all pixels: [N][blocks][H][W][block]. NHWC is one block of C.
struct ImageView {
  int64_t n, h, w, c, block, blocks;
  int64_t offset(int64_t in, int64_t ib, int64_t pixel) const {
    return ((in * blocks + ib) * h * w + pixel) * block;
  }
  int64_t elements() const { return n * blocks * h * w * block; }
};

// Thread-safe.
class Layouts {
 public:
  // The id of `foreign`, RT_LAYOUT_CANONICAL if it is the canonical one. The id is a hash of both
  // descriptions, so it is the same in every process.
  uint64_t add(const MemoryDesc& foreign, const MemoryDesc& canonical);
  // nullptr: not known here. The result lives as long as this object.
  const Layout* find(uint64_t id) const;

  // View of an image [N,H,W,C] in its layout; empty if the layout is not of that kind.
  std::optional<ImageView> image_view(const rt_tensor_desc& tensor) const;
  // The layout of an image of these dims with channel blocks of `block` (>= 2, < C or padded).
  uint64_t blocked_image(const rt_tensor_desc& tensor, int64_t block);

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Layout>> layouts_;
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_LAYOUTS_H_
