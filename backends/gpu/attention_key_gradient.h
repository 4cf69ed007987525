// The kernel of the gradient of attention for keys and values, as attention_query_gradient.h is for
// the queries.
#ifndef BACKENDS_GPU_ATTENTION_KEY_GRADIENT_H_
#define BACKENDS_GPU_ATTENTION_KEY_GRADIENT_H_

#include "backends/gpu/attention_saved.h"
#include "backends/gpu/attention_tiles.h"

namespace backends::gpu {

// dk and dv of the outer rows: the sums of ds_ij q_i and p_ij dy_i over the queries that see the
// key, of all heads that share it.
template <typename Tiles, bool kMasked>
struct KeyGradient {
  using C = typename Tiles::C;
  static constexpr bool kLastFirst = false, kOfKeys = true;
  AttentionOperands<typename Tiles::Element> o;

  GPU_DEVICE void operator()(Tiles& tiles, const BlockPlace& at) const {
    const int64_t sample = at.line / o.s.key_heads, shared = at.line % o.s.key_heads;
    const auto keys = tiles.keep(o.k.of(sample, shared), at.outer);
    const auto values = tiles.keep(o.v.of(sample, shared), at.outer);
    typename Tiles::Result dk, dv;
    clear(dk);
    clear(dv);
    for (int64_t head = shared * o.s.group(); head < (shared + 1) * o.s.group(); ++head) {
      add_head(tiles, at, sample, head, keys, values, dk, dv);
    }
    scale_by(dk, o.scale);
    tiles.store(o.dk.of(sample, shared), at.outer, dk);
    tiles.store(o.dv.of(sample, shared), at.outer, dv);
  }

  template <typename Kept, typename Result>
  GPU_DEVICE void add_head(Tiles& tiles, const BlockPlace& at, int64_t sample, int64_t head,
                           const Kept& keys, const Kept& values, Result& dk, Result& dv) const {
    const int shift = static_cast<int>(o.s.shift()), window = static_cast<int>(o.s.window);
    // The queries from `all` on see all keys of the tile, but for the window.
    const int all = o.s.causal ? at.outer + Tiles::kOuter - 1 - shift : 0,
              first_seen = o.s.causal ? greater(at.outer - shift, 0) : 0;
    const int begin = kMasked ? first_seen / kDocumentRows * kDocumentRows : first_seen;
    const int past = at.outer + Tiles::kOuter - 1 + window - shift,
              end = kMasked && window > 0 ? lesser(o.queries(), past) : o.queries();
    HeadMask<C, kMasked> mask(o.mask, sample, head);
    const int64_t line = sample * o.s.heads + head;
    tiles.walk(begin, end, o.q.of(sample, head), o.dy.of(sample, head), [&](int first) {
      if (kMasked && !mask.meet(first, at.outer)) return;
      GPU_UNROLL for (int slice = 0; slice < Tiles::kSlices; ++slice) {
        const int query = first + slice * Tiles::kSlice;
        if (query >= end) break;
        typename Tiles::Scores s, dp;
        tiles.scores(s, keys, kFirst, slice);
        tiles.scores(dp, values, kSecond, slice);
        if (kMasked || query + Tiles::kSlice > o.queries() || query < all) {
          to_gradients<true>(tiles, s, dp, mask, line, at, query);
        } else {
          to_gradients<false>(tiles, s, dp, mask, line, at, query);
        }
        tiles.accumulate(dv, dp, kSecond, slice);
        tiles.accumulate(dk, s, kFirst, slice);
      }
    });
  }

  // kSome: does some key of the tile have a query of the slice that does not see it?
  template <bool kSome>
  GPU_DEVICE void to_gradients(const Tiles& tiles, typename Tiles::Scores& s,
                               typename Tiles::Scores& dp, HeadMask<C, kMasked>& mask, int64_t line,
                               const BlockPlace& at, int query0) const {
    const C factor = o.scale * C(kLog2E);
    GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
      const int query = query0 + tiles.score_column(k);
      const auto saved = SavedOfQuery<C>::of(o, line, query);
      GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
        const int key = at.outer + tiles.row(r);
        const bool seen = !kSome || sees<kMasked>(o, mask, query, key);
        const C kept = kMasked && mask.drops() ? mask.factor(query, key) : C(1);
        saved.to_gradients(s[r][k], dp[r][k], factor, seen, kept);
      }
    }
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_KEY_GRADIENT_H_
