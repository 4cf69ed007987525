// Stands in for the CUDA driver (libcuda.so.1) where the real cuDNN compiles a kernel for a plan
// and loads it: loading succeeds, everything else answers as NVIDIA's stub library does. cuDNN
// looks all these functions up and refuses to compile if one is missing.

namespace {

constexpr int kSuccess = 0, kStubLibrary = 34;  // CUDA_SUCCESS, CUDA_ERROR_STUB_LIBRARY

int give_handle(void** handle) {
  static char something;
  *handle = &something;
  return kSuccess;
}

}  // namespace

extern "C" {

#define GIVES_HANDLE(name) \
  int name(void** handle) { return give_handle(handle); }
#define GIVES_ZERO(name) \
  int name(int* value) { return *value = kSuccess; }
#define SUCCEEDS(name) \
  int name() { return kSuccess; }
#define REFUSES(name) \
  int name() { return kStubLibrary; }

GIVES_HANDLE(cuLibraryLoadData)
GIVES_HANDLE(cuLibraryGetKernel)
GIVES_ZERO(cuKernelGetAttribute)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuLibraryUnload)
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetDevice)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetAttribute)
REFUSES(cuDeviceGetCount)
REFUSES(cuDevicePrimaryCtxRelease)
REFUSES(cuDevicePrimaryCtxReset)
REFUSES(cuDevicePrimaryCtxRetain)
REFUSES(cuDriverGetVersion)
REFUSES(cuFuncGetAttribute)
REFUSES(cuFuncSetAttribute)
REFUSES(cuGetErrorName)
REFUSES(cuGetErrorString)
REFUSES(cuInit)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkAddData_v2)
REFUSES(cuLinkAddFile_v2)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkCreate_v2)
REFUSES(cuLinkDestroy)
REFUSES(cuMemcpyDtoH_v2)
REFUSES(cuModuleGetFunction)
REFUSES(cuModuleGetGlobal_v2)
REFUSES(cuModuleLoadData)
REFUSES(cuModuleLoadDataEx)
REFUSES(cuModuleLoadFatBinary)
REFUSES(cuModuleUnload)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)
REFUSES(cuStreamSynchronize)
REFUSES(cuTensorMapEncodeTiled)
#undef GIVES_HANDLE
#undef GIVES_ZERO
#undef SUCCEEDS
#undef REFUSES

}  // extern "C"
