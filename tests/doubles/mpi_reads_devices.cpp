// Put before an MPI library (LD_PRELOAD), it says what a build for CUDA says. With devices of
// cuda_double, whose memory is the host's, it is even true. For Open MPI and for MPICH.
extern "C" {
int MPIX_Query_cuda_support() { return 1; }
int MPIX_GPU_query_support(int, int* supported) {
  *supported = 1;
  return 0;
}
}
