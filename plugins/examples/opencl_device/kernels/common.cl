// What all kernels share. The program is built with REAL, the type that they compute in, and with
// WIDE, the type of long sums: double where the device has it.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define CONCATENATE(a, b) a##b
#define VECTOR(type, width) CONCATENATE(type, width)
typedef REAL real;
typedef WIDE wide;
typedef VECTOR(REAL, 16) real16;

// A buffer is two arguments: the memory object, and the bytes from its beginning to the operand.
#define BUFFER(name) global char *name##_object, ulong name##_offset
#define OPEN(type, name) global type *name = (global type *)(name##_object + name##_offset)

// A walk over `dims` in row-major order, in which up to two operands have strides of their own.
typedef struct {
  long rank, dims[8], strides[2][8];
} Walk;

// The offset, in elements, of step `index` of the first `rank` dims of a walk.
long offset_of(long rank, const long *dims, const long *strides, long index) {
  long offset = 0;
  for (long d = rank - 1; d > 0; --d) {
    offset += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return rank > 0 ? offset + index * strides[0] : 0;
}
