// Registers oneDNN's layouts under ids that are hashes of their descriptions.
#include "backends/cpu/layouts.h"

#include <algorithm>
#include <numeric>

namespace backends::cpu {
namespace {

uint64_t hash(uint64_t seed, int64_t value) {  // FNV-1a over the bytes of `value`
  for (int shift = 0; shift < 64; shift += 8) {
    seed ^= (static_cast<uint64_t>(value) >> shift) & 0xff;
    seed *= 0x100000001b3;
  }
  return seed;
}

uint64_t hash(uint64_t seed, const MemoryDesc& md) {
  const MemoryParts parts = take_apart(md);
  seed = hash(seed, static_cast<int64_t>(parts.dims.size()));
  for (const auto* list : {&parts.dims, &parts.padded_dims, &parts.strides, &parts.inner_blocks,
                           &parts.inner_indices}) {
    seed = hash(seed, static_cast<int64_t>(list->size()));
    for (const int64_t value : *list) seed = hash(seed, value);
  }
  for (const uint8_t byte : parts.opaque) seed = hash(seed, byte);
  // The type float32 is left out of the hash. Layouts once had this type only, and tuning caches
  // from that time name them by these ids.
  if (parts.type != DataType::f32) seed = hash(seed, static_cast<int64_t>(parts.type));
  return seed;
}

// oneDNN's notation, such as "aBcd16b": dimensions from outermost to innermost, upper case where
// blocked, followed by the blocks.
std::string notation(const MemoryDesc& md) {
  const MemoryParts parts = take_apart(md);
  if (!parts.transparent) return "opaque";
  std::vector<int> order(parts.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return parts.strides[a] > parts.strides[b]; });
  std::string text;
  for (const int i : order) {
    const bool blocked = std::count(parts.inner_indices.begin(), parts.inner_indices.end(), i) != 0;
    text += static_cast<char>((blocked ? 'A' : 'a') + i);
  }
  for (size_t i = 0; i < parts.inner_blocks.size(); ++i) {
    text += std::to_string(parts.inner_blocks[i]);
    text += static_cast<char>('a' + parts.inner_indices[i]);
  }
  return text;
}

}  // namespace

MemoryDesc strided_desc(const Dims& dims, const Dims& strides, DataType type) {
  return MemoryDesc(dims, type, strides);
}

DataType onednn_type(const rt_tensor_desc& tensor) {
  return tensor.dtype == RT_BFLOAT16 ? DataType::bf16 : DataType::f32;
}

MemoryDesc image_desc(const rt_tensor_desc& tensor) {
  const auto* d = tensor.dims;
  return strided_desc({d[0], d[3], d[1], d[2]}, {d[1] * d[2] * d[3], 1, d[2] * d[3], d[3]},
                      onednn_type(tensor));
}

MemoryDesc weights_desc(const rt_tensor_desc& tensor, int64_t groups) {
  const int64_t o = tensor.dims[0], h = tensor.dims[1], w = tensor.dims[2], i = tensor.dims[3];
  const Dims strides = {h * w * i, 1, w * i, i};
  const DataType type = onednn_type(tensor);
  if (groups == 1) return strided_desc({o, i, h, w}, strides, type);
  return strided_desc({groups, o / groups, i, h, w},
                      {o / groups * h * w * i, strides[0], strides[1], strides[2], strides[3]},
                      type);
}

bool same_memory(const MemoryDesc& a, const MemoryDesc& b) {
  if (a == b) return true;
  const MemoryParts x = take_apart(a), y = take_apart(b);
  if (x.type != y.type || !x.transparent || !y.transparent || x.dims != y.dims ||
      x.padded_dims != y.padded_dims || x.padded_dims != x.dims || !x.inner_blocks.empty() ||
      !y.inner_blocks.empty()) {
    return false;
  }
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] > 1 && x.strides[i] != y.strides[i]) return false;
  }
  return true;
}

uint64_t Layouts::add(const MemoryDesc& foreign, const MemoryDesc& canonical) {
  if (same_memory(foreign, canonical)) return RT_LAYOUT_CANONICAL;
  uint64_t id = hash(hash(0xcbf29ce484222325, foreign), canonical);
  if (id == RT_LAYOUT_CANONICAL || id == RT_LAYOUT_ANY) id = 1;
  const std::lock_guard lock(mutex_);
  auto& slot = layouts_[id];
  if (!slot) {
    slot = std::make_unique<Layout>();
    slot->foreign = foreign;
    slot->canonical = canonical;
    slot->bytes = foreign.get_size();
    slot->name = notation(foreign);
    slot->elementwise = take_apart(foreign).transparent;
  }
  return id;
}

const Layout* Layouts::find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = layouts_.find(id);
  return found == layouts_.end() ? nullptr : found->second.get();
}

std::optional<ImageView> Layouts::image_view(const rt_tensor_desc& tensor) const {
  if (tensor.rank != 4) return std::nullopt;
  const auto* d = tensor.dims;
  if (tensor.layout == RT_LAYOUT_CANONICAL) {
    return ImageView{d[0], d[1], d[2], d[3], d[3], 1};
  }
  const Layout* layout = find(tensor.layout);
  if (layout == nullptr || !same_memory(layout->canonical, image_desc(tensor))) return std::nullopt;
  const MemoryParts parts = take_apart(layout->foreign);
  if (!parts.transparent || parts.inner_blocks.size() > 1) return std::nullopt;
  int64_t block = 1;
  if (!parts.inner_blocks.empty()) {
    if (parts.inner_indices[0] != 1) return std::nullopt;
    block = parts.inner_blocks[0];
  }
  const ImageView view{d[0], d[1], d[2], d[3], block, parts.padded_dims[1] / block};
  const Dims expected = {view.blocks * view.h * view.w * block, view.h * view.w * block,
                         view.w * block, block};
  for (size_t i = 0; i < 4; ++i) {
    const int64_t steps = i == 1 ? view.blocks : parts.dims[i];
    if (steps > 1 && parts.strides[i] != expected[i]) return std::nullopt;
  }
  return view;
}

uint64_t Layouts::blocked_image(const rt_tensor_desc& tensor, int64_t block) {
  using Tag = dnnl::memory::format_tag;
  const auto* d = tensor.dims;
  const Tag tag = block == 16  ? Tag::nChw16c
                  : block == 8 ? Tag::nChw8c
                  : block == 4 ? Tag::nChw4c
                  : block == 1 ? Tag::nchw
                               : Tag::undef;
  if (tag == Tag::undef) return RT_LAYOUT_ANY;
  const MemoryDesc md({d[0], d[3], d[1], d[2]}, onednn_type(tensor), tag);
  return add(md, image_desc(tensor));
}

}  // namespace backends::cpu
