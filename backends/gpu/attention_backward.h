// The kernels of the gradient of attention. Each result is the sum of one block over the other rows
// in their order, so no block adds to what another one wrote, and the bits are the same every time.
#ifndef BACKENDS_GPU_ATTENTION_BACKWARD_H_
#define BACKENDS_GPU_ATTENTION_BACKWARD_H_

#include "backends/gpu/attention_saved.h"
#include "backends/gpu/attention_tiles.h"

namespace backends::gpu {

// dq of the outer rows: the sum of ds_ij k_j over the keys.
template <typename Tiles>
struct QueryGradient {
  using C = typename Tiles::C;
  static constexpr bool kLastFirst = true;
  AttentionOperands<typename Tiles::Element> o;

  GPU_DEVICE void operator()(Tiles& tiles, const BlockPlace& at) const {
    const auto queries = tiles.keep(o.part_of(o.qkv, at.line, 0), at.outer);
    const auto gradients = tiles.keep(o.rows_of(o.dy, at.line), at.outer);
    const int t = o.length(), end = o.s.causal ? lesser(t, at.outer + Tiles::kOuter) : t;
    SavedOfQuery<C> saved[Tiles::kRows];
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      saved[r] = SavedOfQuery<C>::of(o, at.line, at.outer + tiles.row(r));
    }
    typename Tiles::Result dq;
    clear(dq);
    tiles.walk(0, end, o.part_of(o.qkv, at.line, 1), o.part_of(o.qkv, at.line, 2), [&](int first) {
      GPU_UNROLL for (int slice = 0; slice < Tiles::kSlices; ++slice) {
        const int key = first + slice * Tiles::kSlice;
        if (key >= end) break;
        typename Tiles::Scores s, dp;
        tiles.scores(s, queries, kFirst, slice);
        tiles.scores(dp, gradients, kSecond, slice);
        if (key + Tiles::kSlice > t || (o.s.causal && key + Tiles::kSlice > at.outer + 1)) {
          to_gradients<true>(tiles, s, dp, saved, at.outer, key);
        } else {
          to_gradients<false>(tiles, s, dp, saved, at.outer, key);
        }
        tiles.accumulate(dq, s, kFirst, slice);
      }
    });
    scale_by(dq, o.scale);
    tiles.store(o.part_of(o.result, at.line, 0), at.outer, dq);
  }

  // kSome: does some query of the tile not see some key of the slice?
  template <bool kSome>
  GPU_DEVICE void to_gradients(const Tiles& tiles, typename Tiles::Scores& s,
                               typename Tiles::Scores& dp,
                               const SavedOfQuery<C> (&saved)[Tiles::kRows], int query0,
                               int key0) const {
    const C factor = o.scale * C(kLog2E);
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
        const int query = query0 + tiles.row(r), key = key0 + tiles.score_column(k);
        const bool sees = !kSome || (key < o.length() && (!o.s.causal || key <= query));
        saved[r].to_gradients(s[r][k], dp[r][k], factor, sees);
      }
    }
  }
};

// dk and dv of the outer rows: the sums of ds_ij q_i and p_ij dy_i over the queries that see the
// key.
template <typename Tiles>
struct KeyGradient {
  using C = typename Tiles::C;
  static constexpr bool kLastFirst = false;
  AttentionOperands<typename Tiles::Element> o;

  GPU_DEVICE void operator()(Tiles& tiles, const BlockPlace& at) const {
    const auto keys = tiles.keep(o.part_of(o.qkv, at.line, 1), at.outer);
    const auto values = tiles.keep(o.part_of(o.qkv, at.line, 2), at.outer);
    const int t = o.length(), begin = o.s.causal ? at.outer : 0;
    typename Tiles::Result dk, dv;
    clear(dk);
    clear(dv);
    tiles.walk(begin, t, o.part_of(o.qkv, at.line, 0), o.rows_of(o.dy, at.line), [&](int first) {
      GPU_UNROLL for (int slice = 0; slice < Tiles::kSlices; ++slice) {
        const int query = first + slice * Tiles::kSlice;
        if (query >= t) break;
        typename Tiles::Scores s, dp;
        tiles.scores(s, keys, kFirst, slice);
        tiles.scores(dp, values, kSecond, slice);
        if (query + Tiles::kSlice > t || (o.s.causal && query < at.outer + Tiles::kOuter - 1)) {
          to_gradients<true>(tiles, s, dp, at, query);
        } else {
          to_gradients<false>(tiles, s, dp, at, query);
        }
        tiles.accumulate(dv, dp, kSecond, slice);
        tiles.accumulate(dk, s, kFirst, slice);
      }
    });
    scale_by(dk, o.scale);
    tiles.store(o.part_of(o.result, at.line, 1), at.outer, dk);
    tiles.store(o.part_of(o.result, at.line, 2), at.outer, dv);
  }

  // kSome: does some key of the tile have a query of the slice that does not see it?
  template <bool kSome>
  GPU_DEVICE void to_gradients(const Tiles& tiles, typename Tiles::Scores& s,
                               typename Tiles::Scores& dp, const BlockPlace& at, int query0) const {
    const C factor = o.scale * C(kLog2E);
    GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
      const int query = query0 + tiles.score_column(k);
      const auto saved = SavedOfQuery<C>::of(o, at.line, query);
      GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
        const int key = at.outer + tiles.row(r);
        const bool sees = !kSome || (query < o.length() && (!o.s.causal || key <= query));
        saved.to_gradients(s[r][k], dp[r][k], factor, sees);
      }
    }
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_BACKWARD_H_
