// Rows of a matrix in packs of 16 bytes, which the threads of a block hold in registers, so that a
// kernel reads each row once.
#ifndef BACKENDS_GPU_HELD_ROW_H_
#define BACKENDS_GPU_HELD_ROW_H_

#include <climits>
#include <cstring>

#include "backends/gpu/device_code.h"
#include "backends/gpu/unroll.h"

namespace backends::gpu {

// 16 bytes, the most that one load or store moves. A barrier lies between accesses to the same
// memory as packs and as elements, because compilers take these for different memory.
struct alignas(16) Pack {
  uint32_t words[4];
};
template <typename T>
inline constexpr int kPerPack = static_cast<int>(sizeof(Pack) / sizeof(T));

// Element i of a pack. In a kernel i is a constant, so that packs stay in registers.
template <typename T>
GPU_DEVICE Compute<T> element(const Pack& pack, int i) {
  T value;
  if constexpr (sizeof(T) == 2) {
    value.bits = static_cast<uint16_t>(pack.words[i / 2] >> (16 * (i % 2)));
  } else {
    memcpy(&value, &pack.words[i * static_cast<int>(sizeof(T) / 4)], sizeof(T));
  }
  return static_cast<Compute<T>>(value);
}
// Sets element i; the elements of a pack are set in their order.
template <typename T>
GPU_DEVICE void set_element(Pack& pack, int i, Compute<T> x) {
  const T value = static_cast<T>(x);
  if constexpr (sizeof(T) == 2) {
    const uint32_t before = i % 2 == 0 ? 0 : pack.words[i / 2];
    pack.words[i / 2] = before | static_cast<uint32_t>(value.bits) << (16 * (i % 2));
  } else {
    memcpy(&pack.words[i * static_cast<int>(sizeof(T) / 4)], &value, sizeof(T));
  }
}
template <typename T>
GPU_DEVICE Pack filled(Compute<T> x) {
  Pack pack;
  GPU_UNROLL
  for (int i = 0; i < kPerPack<T>; ++i) set_element<T>(pack, i, x);
  return pack;
}

// Loads and stores of 16 bytes. nvcc divides a plain store into four.
template <typename T>
GPU_DEVICE Pack load_pack(const T* from) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}
template <typename T>
GPU_DEVICE void store_pack(T* to, const Pack& pack) {
  const uint32_t* w = pack.words;
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
               : "memory");
#else
  *reinterpret_cast<uint4*>(to) = make_uint4(w[0], w[1], w[2], w[3]);
#endif
}

// How a row divides into packs whose addresses are multiples of 16. At most one element per thread
// lies before the first pack or behind the last one; it is the thread's edge.
template <typename T>
struct RowParts {
  int width, head, packs;  // head: elements before the first pack

  GPU_DEVICE RowParts(const T* row, int64_t elements) : width(static_cast<int>(elements)) {
    const auto behind = static_cast<int>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
    const int to_next = (kPerPack<T> - behind) % kPerPack<T>;
    head = to_next < width ? to_next : width;
    packs = (width - head) / kPerPack<T>;
  }
  // The edge of the calling thread, or -1.
  GPU_DEVICE int edge() const {
    const int t = static_cast<int>(threadIdx.x), j = t < head ? t : t + packs * kPerPack<T>;
    return j < width ? j : -1;
  }
  GPU_DEVICE int first_of(int pack) const { return head + pack * kPerPack<T>; }
};

// Packs of a row in the registers of a block, kPacks for each thread: of the packs from number
// `first` on, thread t holds those with the numbers first + t, first + t + kBlock, ...
template <typename T, int kPacks>
struct Chunk {
  using C = Compute<T>;
  static constexpr int kCount = kPacks * kBlock;
  Pack packs[kPacks];

  GPU_DEVICE static int number(int first, int p) {
    return first + p * kBlock + static_cast<int>(threadIdx.x);
  }
  // Elements of packs that the row does not have become `absent`.
  GPU_DEVICE void load(const T* row, const RowParts<T>& parts, int first, C absent) {
    const Pack none = filled<T>(absent);
    GPU_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      const int n = number(first, p);
      packs[p] = none;
      if (n < parts.packs) packs[p] = load_pack(row + parts.first_of(n));
    }
  }
  // Makes the compiler forget what it knows of the packs. It would otherwise keep the widened
  // elements of one pass over them for the next one, which takes twice as many registers. `zero` is
  // 0, which the compiler may not know.
  GPU_DEVICE void forget(const volatile uint32_t* zero) {
    if constexpr (sizeof(T) != 2) return;
    const uint32_t nothing = *zero;
    GPU_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      GPU_UNROLL
      for (uint32_t& word : packs[p].words) word ^= nothing;
    }
  }
  // Calls f(x, j) for all elements that the thread holds; of absent ones, j is not in the row.
  template <typename Function>
  GPU_DEVICE void each(const RowParts<T>& parts, int first, Function f) const {
    GPU_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      const int begin = parts.first_of(number(first, p));
      GPU_UNROLL
      for (int i = 0; i < kPerPack<T>; ++i) f(element<T>(packs[p], i), begin + i);
    }
  }
  // Writes f(x, p, i) to the row `to`, which is aligned like the row that was read; x is element i
  // of the thread's pack p.
  template <typename Function>
  GPU_DEVICE void store(T* to, const RowParts<T>& parts, int first, Function f) const {
    GPU_UNROLL
    for (int p = 0; p < kPacks; ++p) {
      const int n = number(first, p);
      if (n >= parts.packs) continue;
      Pack result;
      GPU_UNROLL
      for (int i = 0; i < kPerPack<T>; ++i) {
        set_element<T>(result, i, f(element<T>(packs[p], i), p, i));
      }
      store_pack(to + parts.first_of(n), result);
    }
  }
};

// Calls f(first) for each chunk of kPacks packs per thread; once if a chunk holds the whole row.
template <int kPacks, bool kWhole, typename Function>
GPU_DEVICE void for_chunks(int packs, Function f) {
  if constexpr (kWhole) {
    f(0);
  } else {
    for (int first = 0; first < packs; first += kPacks * kBlock) f(first);
  }
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_HELD_ROW_H_
