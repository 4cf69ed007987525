// Preloaded before an MPI library (LD_PRELOAD), it answers as a build with CUDA support does. For
// devices of cuda_double, whose memory is host memory, this is true. For Open MPI and MPICH.
extern "C" {
int MPIX_Query_cuda_support() { return 1; }
int MPIX_GPU_query_support(int, int* supported) {
  *supported = 1;
  return 0;
}
}
