// What a warp of 32 threads does with tensor cores: it multiplies fragments of matrices in 16 bits
// with sums in float32, and brings them from device memory to shared memory and to registers.
// Source: "PTX ISA", NVIDIA, "Warp-level matrix instructions" (mma.m16n8k16, ldmatrix) and
// "cp.async". All threads of a block must call these functions together, because HIP-CPU exchanges
// the fragments through shared memory (mma_processor.h).
#ifndef BACKENDS_GPU_MMA_H_
#define BACKENDS_GPU_MMA_H_

#include "backends/gpu/device_code.h"

// AMD's devices multiply fragments of other shapes, so they have none of these functions.
#if defined(BACKENDS_GPU_CUDA) || defined(__HIP_CPU_RT__)
#define BACKENDS_GPU_MMA
#endif

#if defined(__HIP_CPU_RT__)
#include "backends/gpu/mma_processor.h"
#elif defined(BACKENDS_GPU_CUDA)
namespace backends::gpu {

// Rounds two numbers to T; `first` is in the lower 16 bits.
template <typename T>
GPU_DEVICE uint32_t pack(float first, float second) {
  uint32_t both;
  if constexpr (std::is_same_v<T, Float16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  }
  return both;
}

// c += a b, with a [16,16], b [16,8] and c [16,8]. With g = lane / 4 and h = lane % 4 * 2, a thread
// holds these elements: a[0] (g, h) and (g, h + 1), a[1] row g + 8, a[2] columns h + 8 and h + 9,
// a[3] both; b0 (h, g) and (h + 1, g), b1 rows h + 8 and h + 9; c0 (g, h), c1 (g, h + 1), and c2
// and c3 the same of row g + 8.
template <typename T>
GPU_DEVICE void multiply_fragments(float& c0, float& c1, float& c2, float& c3,
                                   const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, Float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Loads four matrices of 8 x 8 elements from shared memory. Thread 8 m + r gives the address of row
// r of matrix m, which is aligned to 16 bytes. to[m] receives the elements (lane / 4, lane % 4 * 2)
// and the next one in that row of matrix m; of its transpose if kTransposed.
template <bool kTransposed>
GPU_DEVICE void load_matrices(uint32_t (&to)[4], const uint16_t* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// Begins to copy 16 bytes from device memory to shared memory; if not `inside`, to fill them with
// zeros. Both addresses are aligned to 16 bytes.
GPU_DEVICE void begin_copy(uint16_t* shared, const void* from, bool inside) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}
// Makes the copies that the thread began since the last call one group.
GPU_DEVICE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for the thread's own copies, except for those of its kPending latest groups.
template <int kPending>
GPU_DEVICE void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace backends::gpu
#endif

#endif  // BACKENDS_GPU_MMA_H_
