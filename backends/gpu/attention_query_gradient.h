// The kernel of the gradient of attention for the queries. Each result is the sum of one block over
// the other rows in their order, so no block adds to what another one wrote, and the bits are the
// same every time.
#ifndef BACKENDS_GPU_ATTENTION_QUERY_GRADIENT_H_
#define BACKENDS_GPU_ATTENTION_QUERY_GRADIENT_H_

#include "backends/gpu/attention_saved.h"
#include "backends/gpu/attention_tiles.h"

namespace backends::gpu {

// dq of the outer rows: the sum of ds_ij k_j over the keys. kMasked: with a window, documents or
// dropout.
template <typename Tiles, bool kMasked>
struct QueryGradient {
  using C = typename Tiles::C;
  static constexpr bool kLastFirst = true, kOfKeys = false;
  AttentionOperands<typename Tiles::Element> o;

  GPU_DEVICE void operator()(Tiles& tiles, const BlockPlace& at) const {
    const auto queries = tiles.keep(o.queries_of(o.q, at.line), at.outer);
    const auto gradients = tiles.keep(o.queries_of(o.dy, at.line), at.outer);
    const KeyRange range = keys_seen<Tiles, kMasked>(o, at.outer);
    HeadMask<C, kMasked> mask(o.mask, at.line / o.s.heads, at.line % o.s.heads);
    SavedOfQuery<C> saved[Tiles::kRows];
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      saved[r] = SavedOfQuery<C>::of(o, at.line, at.outer + tiles.row(r));
    }
    typename Tiles::Result dq;
    clear(dq);
    tiles.walk(range.begin, range.end, o.keys_of(o.k, at.line), o.keys_of(o.v, at.line),
               [&](int first) {
                 if (kMasked && !mask.meet(at.outer, first)) return;
                 GPU_UNROLL for (int slice = 0; slice < Tiles::kSlices; ++slice) {
                   const int key = first + slice * Tiles::kSlice;
                   if (key >= range.end) break;
                   typename Tiles::Scores s, dp;
                   tiles.scores(s, queries, kFirst, slice);
                   tiles.scores(dp, gradients, kSecond, slice);
                   if (kMasked || key + Tiles::kSlice > range.all) {
                     to_gradients<true>(tiles, s, dp, saved, mask, at.outer, key);
                   } else {
                     to_gradients<false>(tiles, s, dp, saved, mask, at.outer, key);
                   }
                   tiles.accumulate(dq, s, kFirst, slice);
                 }
               });
    scale_by(dq, o.scale);
    tiles.store(o.queries_of(o.dq, at.line), at.outer, dq);
  }

  // kSome: does some query of the tile not see some key of the slice?
  template <bool kSome>
  GPU_DEVICE void to_gradients(const Tiles& tiles, typename Tiles::Scores& s,
                               typename Tiles::Scores& dp,
                               const SavedOfQuery<C> (&saved)[Tiles::kRows],
                               HeadMask<C, kMasked>& mask, int query0, int key0) const {
    const C factor = o.scale * C(kLog2E);
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
        const int query = query0 + tiles.row(r), key = key0 + tiles.score_column(k);
        const bool seen = !kSome || sees<kMasked>(o, mask, query, key);
        const C kept = kMasked && mask.drops() ? mask.factor(query, key) : C(1);
        saved[r].to_gradients(s[r][k], dp[r][k], factor, seen, kept);
      }
    }
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_QUERY_GRADIENT_H_
