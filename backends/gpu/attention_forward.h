// The forward kernel of attention: y and the logarithms of the softmax's sums.
#ifndef BACKENDS_GPU_ATTENTION_FORWARD_H_
#define BACKENDS_GPU_ATTENTION_FORWARD_H_

#include "backends/gpu/attention_tiles.h"

namespace backends::gpu {

// y. Scores are taken to base 2, because devices compute powers of 2. kMasked: with a window,
// documents or dropout.
template <typename Tiles, bool kMasked>
struct AttentionForward {
  using C = typename Tiles::C;
  static constexpr bool kLastFirst = true, kOfKeys = false;
  AttentionOperands<typename Tiles::Element> o;

  struct Rows {
    C largest[Tiles::kRows], sum[Tiles::kRows];  // sum: of this thread's columns
    typename Tiles::Result y;
  };

  GPU_DEVICE void operator()(Tiles& tiles, const BlockPlace& at) const {
    const auto queries = tiles.keep(o.queries_of(o.q, at.line), at.outer);
    const KeyRange range = keys_seen<Tiles, kMasked>(o, at.outer);
    HeadMask<C, kMasked> mask(o.mask, at.line / o.s.heads, at.line % o.s.heads);
    Rows rows;
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      rows.largest[r] = -INFINITY;
      rows.sum[r] = 0;
    }
    clear(rows.y);
    tiles.walk(range.begin, range.end, o.keys_of(o.k, at.line), o.keys_of(o.v, at.line),
               [&](int first) {
                 if (kMasked && !mask.meet(at.outer, first)) return;
                 GPU_UNROLL for (int slice = 0; slice < Tiles::kSlices; ++slice) {
                   const int key = first + slice * Tiles::kSlice;
                   if (key >= range.end) break;
                   typename Tiles::Scores s;
                   tiles.scores(s, queries, kFirst, slice);
                   if (kMasked || key + Tiles::kSlice > range.all)
                     hide(tiles, s, mask, at.outer, key);
                   to_weights(s, rows);
                   if (kMasked && mask.drops()) drop(tiles, s, mask, at.outer, key);
                   tiles.accumulate(rows.y, s, kSecond, slice);
                 }
               });
    finish(tiles, rows, mask, at);
  }

  // Keys that a query does not see have the score -infinity.
  GPU_DEVICE void hide(const Tiles& tiles, typename Tiles::Scores& s,
                       const HeadMask<C, kMasked>& mask, int query0, int key0) const {
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
        const int query = query0 + tiles.row(r), key = key0 + tiles.score_column(k);
        if (!sees<kMasked>(o, mask, query, key)) s[r][k] = -INFINITY;
      }
    }
  }

  GPU_DEVICE void drop(const Tiles& tiles, typename Tiles::Scores& s, HeadMask<C, kMasked>& mask,
                       int query0, int key0) const {
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
        s[r][k] *= mask.factor(query0 + tiles.row(r), key0 + tiles.score_column(k));
      }
    }
  }

  // Replaces scores by exp(score - largest score) and fades what was summed with a smaller largest
  // score. If all scores so far are -infinity, their weights are 0 and not exp(-inf + inf) = NaN,
  // because a finite score may follow. The difference comes first: the product of a large score
  // with the factor, not rounded, less a rounded one would be a large number where it should be 0.
  GPU_DEVICE void to_weights(typename Tiles::Scores& s, Rows& rows) const {
    const C factor = o.scale * C(kLog2E);
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      C largest = rows.largest[r];
      GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) largest = larger(largest, s[r][k]);
      largest = reduce_lanes<Larger, Tiles::kLanes>(largest);
      const C base = largest == C(-INFINITY) ? C(0) : largest;
      const C fade =
          largest == rows.largest[r] ? C(1) : exp2_of((rows.largest[r] - largest) * factor);
      C added = 0;
      GPU_UNROLL for (int k = 0; k < Tiles::kScores; ++k) {
        s[r][k] = exp2_of((s[r][k] - base) * factor);
        added += s[r][k];
      }
      rows.sum[r] = rows.sum[r] * fade + added;
      rows.largest[r] = largest;
      GPU_UNROLL for (int k = 0; k < Tiles::kResults; ++k) rows.y[r][k] *= fade;
    }
  }

  GPU_DEVICE void finish(Tiles& tiles, Rows& rows, const HeadMask<C, kMasked>& mask,
                         const BlockPlace& at) const {
    GPU_UNROLL for (int r = 0; r < Tiles::kRows; ++r) {
      const int query = at.outer + tiles.row(r);
      const C sum = reduce_lanes<Sum, Tiles::kLanes>(rows.sum[r]);
      const bool nothing = rows.largest[r] == C(-INFINITY) && !sees_any<kMasked>(o, mask, query);
      const C inverse = nothing ? C(0) : C(1) / sum;
      GPU_UNROLL for (int k = 0; k < Tiles::kResults; ++k) rows.y[r][k] *= inverse;
      if (at.column == 0 && query < o.queries() && threadIdx.x % Tiles::kLanes == 0) {
        o.log_sums[at.line * o.s.t + query] =
            nothing ? C(0) : rows.largest[r] * o.scale + log_of(sum);
      }
    }
    tiles.store(o.queries_of(o.result, at.line), at.outer, rows.y);
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ATTENTION_FORWARD_H_
