// The kernels of the gradient of attention. Each result is the sum of one block over the other rows
// in their order, so no block adds to what another one wrote, and the bits are the same every time.
#ifndef BACKENDS_GPU_ATTENTION_BACKWARD_H_
#define BACKENDS_GPU_ATTENTION_BACKWARD_H_

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

#endif  // BACKENDS_GPU_ATTENTION_BACKWARD_H_
