// Which keys a query of attention sees, and which weights dropout keeps.
#ifndef BACKENDS_GPU_ATTENTION_MASK_H_
#define BACKENDS_GPU_ATTENTION_MASK_H_

#include "backends/gpu/device_code.h"
#include "backends/gpu/philox.h"

namespace backends::gpu {

inline constexpr int kDocumentRows = 64;  // rows whose documents have one range

// The documents of some rows are from `low` to `high`, but for rows that have none.
struct DocumentRange {
  int32_t low, high;
  GPU_DEVICE bool meets(const DocumentRange& other) const {
    return low <= other.high && other.low <= high;
  }
};

// Documents and dropout; plugins/operations.md says what they mean.
struct AttentionMask {
  const int32_t* documents = nullptr;  // [n][numbers]; nullptr: there are none
  int64_t numbers, first_key;          // first_key: where those of the keys begin
  DocumentRange* ranges;               // [n][ranges of queries, ranges of keys]
  int64_t query_ranges, key_ranges;
  const int64_t *step, *base;
  uint64_t seed;
  uint32_t stream, first_head, threshold;
  bool drops = false;
  double factor;  // of weights that are kept
};

// The mask of one head of one sample, in a thread. If not kMasked, there are neither documents nor
// dropout.
template <typename C, bool kMasked>
class HeadMask {
 public:
  GPU_DEVICE HeadMask(const AttentionMask&, int64_t, int64_t) {}
  GPU_DEVICE bool has_documents() const { return false; }
  GPU_DEVICE bool drops() const { return false; }
  GPU_DEVICE bool meet(int, int) const { return true; }
  GPU_DEVICE bool is_padding(int) const { return false; }
  GPU_DEVICE bool same(int, int) const { return true; }
  GPU_DEVICE C factor(int, int) { return C(1); }
};

template <typename C>
class HeadMask<C, true> {
 public:
  GPU_DEVICE HeadMask(const AttentionMask& mask, int64_t sample, int64_t head) : mask_(mask) {
    if (mask.documents != nullptr) {
      queries_ = mask.documents + sample * mask.numbers;
      keys_ = queries_ + mask.first_key;
      ranges_ = mask.ranges + sample * (mask.query_ranges + mask.key_ranges);
    }
    if (mask.drops) begin_dropout(sample, head);
  }
  GPU_DEVICE bool has_documents() const { return mask_.documents != nullptr; }
  GPU_DEVICE bool drops() const { return mask_.drops; }
  // Whether one of the queries of a range may see one of the keys of a range.
  GPU_DEVICE bool meet(int query, int key) const {
    return !has_documents() ||
           ranges_[query / kDocumentRows].meets(ranges_[mask_.query_ranges + key / kDocumentRows]);
  }
  // Whether the query belongs to no document, so that it sees nothing.
  GPU_DEVICE bool is_padding(int query) const { return has_documents() && queries_[query] < 0; }
  // Whether they belong to one document.
  GPU_DEVICE bool same(int query, int key) const {
    if (!has_documents()) return true;
    const int32_t of = queries_[query];
    return of >= 0 && of == keys_[key];
  }
  // What dropout multiplies the weight by.
  GPU_DEVICE C factor(int query, int key) {
    if (key >> 2 != group_ || query != row_) draw(query, key >> 2);
    const uint32_t low = (key & 1) == 0 ? words_[0] : words_[1],
                   high = (key & 1) == 0 ? words_[2] : words_[3];
    const uint32_t word = (key & 2) == 0 ? low : high;
    return word >> 8 >= mask_.threshold ? static_cast<C>(mask_.factor) : C(0);
  }

 private:
  GPU_DEVICE void begin_dropout(int64_t sample, int64_t head) {
    const auto step = static_cast<uint64_t>(*mask_.step);
    const uint32_t counter[4] = {static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32),
                                 mask_.stream, ~uint32_t{0}};
    philox(counter, mask_.seed, words_);
    key_ = words_[0] | uint64_t{words_[1]} << 32;
    head_ = mask_.first_head + static_cast<uint32_t>(head);
    sample_ = static_cast<uint32_t>(*mask_.base + sample);
  }
  GPU_DEVICE void draw(int query, int group) {
    row_ = query;
    group_ = group;
    const uint32_t counter[4] = {static_cast<uint32_t>(group), static_cast<uint32_t>(query), head_,
                                 sample_};
    philox(counter, key_, words_);
  }

  const AttentionMask& mask_;
  const int32_t *queries_ = nullptr, *keys_ = nullptr;
  const DocumentRange* ranges_ = nullptr;
  uint64_t key_ = 0;
  uint32_t head_ = 0, sample_ = 0, words_[4];
  int row_ = -1, group_ = -1;  // what words_ holds
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_MASK_H_
