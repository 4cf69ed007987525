// Packs q, k and v of one head after the other and computes scores, probabilities and gradients of
// each.
#include "backends/cpu/bfloat16/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/parallel.h"
#include "rt/operations.h"

namespace backends::cpu::bfloat16 {
namespace {

int64_t round_up(int64_t a) { return (a + kTileSide - 1) / kTileSide * kTileSide; }

}  // namespace

// The matrices of one head of one sample, [length][width] each.
struct Attention::Head {
  Matrix q, k, v, y;
  int64_t row, y_row;  // elements from one row to the next of q, k and v, and of y
};

// The workspace of one thread. Packed matrices are named after what they hold, and after the side
// of the product on which they stand.
struct Attention::Memory {
  char *q_left, *k_columns, *v_columns, *k_rows, *q_rows, *v_rows, *dy_left, *dy_rows, *tile;
  float *scores, *slopes, *result;      // [32][length], [32][length], [32][width], rounded up
  uint16_t *probabilities, *gradients;  // [32 or length][length], rounded up
  uint64_t bytes;
};

Attention::Memory Attention::memory(char* workspace, bool backward) const {
  const int64_t length = round_up(shape_.length), width = round_up(shape_.width);
  const auto by_width = static_cast<uint64_t>(length / kTileSide * packed_bytes(width));
  const auto by_length = static_cast<uint64_t>(width / kTileSide * packed_bytes(length));
  const auto floats = static_cast<uint64_t>(kTileSide * 4);
  uint64_t at = 0;
  const auto take = [&](uint64_t bytes) {
    char* const start = workspace + at;
    at += bytes;
    return start;
  };
  Memory m{};
  m.q_left = take(by_width), m.k_columns = take(by_width), m.v_rows = take(by_length);
  m.tile = take(static_cast<uint64_t>(packed_bytes(length)));
  m.scores = reinterpret_cast<float*>(take(floats * static_cast<uint64_t>(length)));
  m.slopes = reinterpret_cast<float*>(take(floats * static_cast<uint64_t>(length)));
  m.result = reinterpret_cast<float*>(take(floats * static_cast<uint64_t>(width)));
  const auto square = static_cast<uint64_t>((backward ? length : kTileSide) * length * 2);
  m.probabilities = reinterpret_cast<uint16_t*>(take(square));
  if (backward) {
    m.gradients = reinterpret_cast<uint16_t*>(take(square));
    m.v_columns = take(by_width), m.dy_left = take(by_width);
    m.k_rows = take(by_length), m.q_rows = take(by_length), m.dy_rows = take(by_length);
  }
  m.bytes = at;
  return m;
}

uint64_t Attention::saved_bytes() const {
  return static_cast<uint64_t>(shape_.samples * shape_.heads * shape_.length * 2) * sizeof(float);
}

uint64_t Attention::workspace_bytes(bool backward) const {
  return static_cast<uint64_t>(threads_) * memory(nullptr, backward).bytes;
}

Attention::Head Attention::head(const uint16_t* qkv, const uint16_t* y, int64_t index) const {
  const int64_t channels = shape_.heads * shape_.width;
  const int64_t sample = index / shape_.heads, column = index % shape_.heads * shape_.width;
  const uint16_t* const q = qkv + sample * shape_.length * 3 * channels + column;
  const auto part = [&](int64_t i) { return Matrix{q + i * channels, 3 * channels, 1}; };
  return {part(0),      part(1),
          part(2),      {y + sample * shape_.length * channels + column, channels, 1},
          3 * channels, channels};
}

void Attention::multiply(const char* left, const char* right, int64_t panel_bytes, int64_t depth,
                         int64_t columns, float* c, int64_t c_row) const {
  for (int64_t j = 0; j < columns; j += kTileSide) {
    unit_->multiply({left, right + j / kTileSide * panel_bytes, depth, c + j, c_row, false});
  }
}

void Attention::multiply_into(const char* left, const char* right, int64_t depth,
                              const Memory& memory, int64_t rows, const float* factors,
                              int64_t factor_step, uint16_t* to, int64_t to_row) const {
  const int64_t width = round_up(shape_.width);
  multiply(left, right, packed_bytes(shape_.length), depth, shape_.width, memory.result, width);
  for (int64_t r = 0; r < rows; ++r) {
    float* const values = memory.result + r * width;
    if (factors != nullptr) {
      kernel_->scale(values, factors[r * factor_step], 0.0f, values, shape_.width);
    }
    kernel_->narrow(values, to + r * to_row, shape_.width);
  }
}

// The largest is subtracted before anything is rounded, so that its exponential is 1 also where the
// rounding error of a score is large.
void Attention::exponentials(float* scores, float largest, float scale, int64_t count) const {
  kernel_->scale(scores, 1.0f, -largest, scores, count);
  kernel_->scale(scores, scale, 0.0f, scores, count);
  kernel_->activation(RT_ACTIVATION_EXP, scores, scores, count);
}

void Attention::forward_rows(const Head& head, const Memory& m, int64_t row, float* saved,
                             uint16_t* y) const {
  const int64_t rows = std::min(kTileSide, shape_.length - row), length = round_up(shape_.length);
  const int64_t keys = visible(row + rows - 1);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.width));
  multiply(m.q_left + row / kTileSide * packed_bytes(shape_.width), m.k_columns,
           packed_bytes(shape_.width), shape_.width, keys, m.scores, length);
  for (int64_t r = 0; r < rows; ++r) {
    float* const s = m.scores + r * length;
    const int64_t count = visible(row + r);
    const auto largest = static_cast<float>(kernel_->row_max(s, count));
    exponentials(s, largest, scale, count);
    saved[2 * r] = largest;
    saved[2 * r + 1] = static_cast<float>(1.0 / kernel_->row_sum(s, count));
    uint16_t* const p = m.probabilities + r * length;
    kernel_->narrow(s, p, count);
    std::fill(p + count, p + length, uint16_t{0});
  }
  unit_->pack_left({m.probabilities, length, 1}, rows, keys, m.tile);
  multiply_into(m.tile, m.v_rows, keys, m, rows, saved + 1, 2, y, head.y_row);
}

void Attention::forward(const uint16_t* qkv, uint16_t* y, float* saved, void* workspace) const {
  const uint64_t bytes = memory(nullptr, false).bytes;
  const int64_t length = shape_.length, width = shape_.width;
  parallel_parts(
      threads_, shape_.samples * shape_.heads, 2, 1, [&](int part, int64_t begin, int64_t end) {
        const Memory m =
            memory(static_cast<char*>(workspace) + static_cast<uint64_t>(part) * bytes, false);
        unit_->begin();
        for (int64_t i = begin; i < end; ++i) {
          const Head h = head(qkv, y, i);
          unit_->pack_left(h.q, length, width, m.q_left);
          unit_->pack_right(h.k.transposed(), width, length, m.k_columns);
          unit_->pack_right(h.v, length, width, m.v_rows);
          for (int64_t row = 0; row < length; row += kTileSide) {
            forward_rows(h, m, row, saved + 2 * (i * length + row),
                         const_cast<uint16_t*>(h.y.at(row, 0).data));
          }
        }
        unit_->end();
      });
}

// Writes rows of the probabilities and of the gradients of the scores, and rows of dq.
void Attention::backward_rows(const Head& head, const Memory& m, int64_t row, const float* saved,
                              const uint16_t* dy, const uint16_t* y, uint16_t* dq) const {
  const int64_t rows = std::min(kTileSide, shape_.length - row), length = round_up(shape_.length);
  const int64_t keys = visible(row + rows - 1), panel = packed_bytes(shape_.width);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.width));
  const int64_t tile = row / kTileSide * panel;
  multiply(m.q_left + tile, m.k_columns, panel, shape_.width, keys, m.scores, length);
  multiply(m.dy_left + tile, m.v_columns, panel, shape_.width, keys, m.slopes, length);
  for (int64_t r = 0; r < rows; ++r) {
    float *const s = m.scores + r * length, *const slope = m.slopes + r * length;
    const int64_t count = visible(row + r);
    // The rows of dy and y lie in m.result, which is not used yet.
    float* const a = m.result;
    float* const b = m.result + round_up(shape_.width);
    kernel_->widen(dy + r * head.y_row, a, shape_.width);
    kernel_->widen(y + r * head.y_row, b, shape_.width);
    kernel_->binary(kernels::Binary::kMultiply, a, 1, b, 1, a, shape_.width);
    const auto mean = static_cast<float>(kernel_->row_sum(a, shape_.width));
    exponentials(s, saved[2 * r], scale, count);
    kernel_->scale(s, saved[2 * r + 1], 0.0f, s, count);
    kernel_->scale(slope, scale, -mean * scale, slope, count);
    kernel_->binary(kernels::Binary::kMultiply, slope, 1, s, 1, slope, count);
    uint16_t* const p = m.probabilities + (row + r) * length;
    uint16_t* const g = m.gradients + (row + r) * length;
    kernel_->narrow(s, p, count);
    kernel_->narrow(slope, g, count);
    std::fill(p + count, p + length, uint16_t{0});
    std::fill(g + count, g + length, uint16_t{0});
  }
  unit_->pack_left({m.gradients + row * length, length, 1}, rows, keys, m.tile);
  multiply_into(m.tile, m.k_rows, keys, m, rows, nullptr, 0, dq, head.row);
}

// Writes rows of dk and dv.
void Attention::backward_keys(const Head& head, const Memory& m, int64_t key, uint16_t* dk,
                              uint16_t* dv) const {
  const int64_t rows = std::min(kTileSide, shape_.length - key), length = round_up(shape_.length);
  const int64_t first = shape_.causal ? key : 0;  // the first query that sees one of the keys
  const int64_t depth = shape_.length - first, skipped = first / kDepthStep * kStepBytes;
  const auto columns = [&](const uint16_t* square) {
    return Matrix{square + first * length + key, 1, length};
  };
  unit_->pack_left(columns(m.gradients), rows, depth, m.tile);
  multiply_into(m.tile, m.q_rows + skipped, depth, m, rows, nullptr, 0, dk, head.row);
  unit_->pack_left(columns(m.probabilities), rows, depth, m.tile);
  multiply_into(m.tile, m.dy_rows + skipped, depth, m, rows, nullptr, 0, dv, head.row);
}

void Attention::backward(const uint16_t* dy, const uint16_t* qkv, const uint16_t* y,
                         const float* saved, uint16_t* dqkv, void* workspace) const {
  const uint64_t bytes = memory(nullptr, true).bytes;
  const int64_t length = shape_.length, width = shape_.width;
  parallel_parts(
      threads_, shape_.samples * shape_.heads, 2, 1, [&](int part, int64_t begin, int64_t end) {
        const Memory m =
            memory(static_cast<char*>(workspace) + static_cast<uint64_t>(part) * bytes, true);
        unit_->begin();
        for (int64_t i = begin; i < end; ++i) {
          const Head h = head(qkv, y, i), g = head(dqkv, dy, i);  // g.y is dy
          unit_->pack_left(h.q, length, width, m.q_left);
          unit_->pack_left(g.y, length, width, m.dy_left);
          unit_->pack_right(h.k.transposed(), width, length, m.k_columns);
          unit_->pack_right(h.v.transposed(), width, length, m.v_columns);
          unit_->pack_right(h.k, length, width, m.k_rows);
          unit_->pack_right(h.q, length, width, m.q_rows);
          unit_->pack_right(g.y, length, width, m.dy_rows);
          const auto rows_of = [](const Matrix& part, int64_t row) {
            return const_cast<uint16_t*>(part.at(row, 0).data);
          };
          for (int64_t row = 0; row < length; row += kTileSide) {
            backward_rows(h, m, row, saved + 2 * (i * length + row), g.y.at(row, 0).data,
                          h.y.at(row, 0).data, rows_of(g.q, row));
          }
          for (int64_t key = 0; key < length; key += kTileSide) {
            backward_keys(h, m, key, rows_of(g.k, key), rows_of(g.v, key));
          }
        }
        unit_->end();
      });
}

}  // namespace backends::cpu::bfloat16
