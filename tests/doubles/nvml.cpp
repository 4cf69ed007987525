// A double of NVML with the functions that backends/gpu/telemetry.cpp calls: one device, at
// 0000:65:00.0.
#include <cstring>

namespace {
constexpr int kSuccess = 0, kNotFound = 6, kUninitialized = 1;
int starts = 0;
char device;
}  // namespace

extern "C" {
struct Rates {
  unsigned compute, memory;
};

int nvmlInit_v2() {
  ++starts;
  return kSuccess;
}
int nvmlShutdown() { return --starts < 0 ? kUninitialized : kSuccess; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  *handle = &device;
  return starts > 0 && std::strcmp(id, "00000000:65:00.0") == 0 ? kSuccess : kNotFound;
}
int nvmlDeviceGetUtilizationRates(void* handle, Rates* rates) {
  *rates = {87, 31};
  return handle == &device ? kSuccess : kNotFound;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 212500;
  return kSuccess;
}
// The result that a device without the sensor gives.
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 12345;
  return 3;
}
}
