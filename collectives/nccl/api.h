// The names that differ between NCCL with CUDA and RCCL with HIP. GPU(EventRecord) is
// cudaEventRecord or hipEventRecord.
#ifndef COLLECTIVES_NCCL_API_H_
#define COLLECTIVES_NCCL_API_H_

#if defined(COLLECTIVES_NCCL_HIP)
#include <hip/hip_runtime.h>
#include <rccl/rccl.h>
#define GPU(name) hip##name
#else
#include <cuda_runtime_api.h>
#include <nccl.h>
#define GPU(name) cuda##name
#endif

#include "rt/sdk/error.h"

namespace collectives::nccl {

#if defined(COLLECTIVES_NCCL_HIP)
inline constexpr char kName[] = "rccl", kDevicePlugin[] = "rocm", kApiName[] = "HIP",
                      kNativeKind[] = "hip";
inline constexpr bool kCapturable = false;  // not looked into yet
#else
inline constexpr char kName[] = "nccl", kDevicePlugin[] = "cuda", kApiName[] = "CUDA",
                      kNativeKind[] = "cuda";
inline constexpr bool kCapturable = true;
#endif

// Throws rt::sdk::Error (RT_ERROR_DEVICE) unless `status` is success. `what` says what was tried.
inline void check_gpu(GPU(Error_t) status, const char* what) {
  if (status == GPU(Success)) return;
  rt::sdk::Error error(
      RT_ERROR_DEVICE,
      rt::sdk::format("%s: %s failed: %s", kName, what, GPU(GetErrorString)(status)),
      RT_SCOPE_DEVICE);
  throw error.native(kApiName, static_cast<int64_t>(status));
}

// Throws rt::sdk::Error (RT_ERROR_COMMUNICATION) unless `status` is success or in progress. If
// `comm` is null, the message has the library's last error of the process.
inline void check_nccl(ncclResult_t status, const char* what, ncclComm_t comm = nullptr) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  rt::sdk::Error error(RT_ERROR_COMMUNICATION,
                       rt::sdk::format("%s: %s failed: %s (%s)", kName, what,
                                       ncclGetErrorString(status), ncclGetLastError(comm)),
                       RT_SCOPE_COMMUNICATOR);
  throw error.native("NCCL", static_cast<int64_t>(status));
}

}  // namespace collectives::nccl

#endif  // COLLECTIVES_NCCL_API_H_
