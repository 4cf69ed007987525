// Describes a device to cuDNN 9.19, in its own syntax, so that the library makes plans for this
// device on a machine without a GPU. Numbers from NVIDIA's description of the H100.
#ifndef TESTS_DOUBLES_H100_H_
#define TESTS_DOUBLES_H100_H_

inline constexpr char kH100[] = R"({
  "deviceName": "H100", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "isTccDriver": 0,
  "l2CacheSize": 52428800, "maxCtasPerSM": 32, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "memClockRateKHz": 2619000,
  "multiProcessorCount": 132, "pciDeviceId": 0, "regsPerBlock": 65536,
  "reservedSharedMemoryPerBlock": 1024, "smClockRateKHz": 1980000, "supportCoopLaunch": 1,
  "totalGlobalMem": 85000000000, "warpSize": 32,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64]
})";
#define BACKENDS_CUDA_CUDNN_DEVICE kH100

#endif  // TESTS_DOUBLES_H100_H_
