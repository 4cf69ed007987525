// Loads NVML or ROCm SMI on first use, and reads load, temperature and power through it.
#include "backends/gpu/telemetry.h"

#include <cstdint>

#include "backends/gpu/library.h"

namespace backends::gpu {
namespace {

// The number that a call returns through its argument, or -1 if the call fails. Both libraries
// return 0 for success.
template <typename Number, typename Call>
int64_t ask(const Call& call) {
  Number number{};
  return call(&number) == 0 ? static_cast<int64_t>(number) : -1;
}

// The signatures are those of the NVML API reference guide.
class Nvml : public Telemetry {
 public:
  explicit Nvml(const char* library) : library_(library) {
    library_.find_optional("nvmlInit_v2", init_);
    library_.find_optional("nvmlShutdown", shutdown_);
    library_.find_optional("nvmlDeviceGetHandleByPciBusId_v2", by_bus_id_);
    library_.find_optional("nvmlDeviceGetUtilizationRates", rates_);
    library_.find_optional("nvmlDeviceGetPowerUsage", power_);
    library_.find_optional("nvmlDeviceGetTemperature", temperature_);
  }
  ~Nvml() override {
    if (started_ && shutdown_ != nullptr) shutdown_();
  }

  bool open(const PciAddress& at) {
    if (init_ == nullptr || by_bus_id_ == nullptr || init_() != 0) return false;
    started_ = true;
    const std::string id = rt::sdk::format("%08x:%02x:%02x.0", at.domain, at.bus, at.device);
    return by_bus_id_(id.c_str(), &device_) == 0;
  }

  void read(rt_utilisation& u) override {
    Rates rates{};
    const bool known = rates_ != nullptr && rates_(device_, &rates) == 0;
    u.compute_percent = known ? static_cast<int32_t>(rates.compute) : -1;
    u.memory_percent = known ? static_cast<int32_t>(rates.memory) : -1;
    u.power_milliwatts = power_ == nullptr ? -1 : ask<unsigned>([&](unsigned* milliwatts) {
      return power_(device_, milliwatts);
    });
    constexpr int kOfTheChip = 0;
    u.temperature_celsius =
        temperature_ == nullptr ? -1 : static_cast<int32_t>(ask<unsigned>([&](unsigned* celsius) {
          return temperature_(device_, kOfTheChip, celsius);
        }));
  }

 private:
  struct Rates {  // nvmlUtilization_t
    unsigned compute, memory;
  };
  const Library library_;
  int (*init_)();
  int (*shutdown_)();
  int (*by_bus_id_)(const char*, void**);
  int (*rates_)(void*, Rates*);
  int (*power_)(void*, unsigned*);
  int (*temperature_)(void*, int, unsigned*);
  bool started_ = false;
  void* device_ = nullptr;  // nvmlDevice_t
};

// The signatures are those of the ROCm SMI manual.
class RocmSmi : public Telemetry {
 public:
  explicit RocmSmi(const char* library) : library_(library) {
    library_.find_optional("rsmi_init", init_);
    library_.find_optional("rsmi_shut_down", shut_down_);
    library_.find_optional("rsmi_num_monitor_devices", count_);
    library_.find_optional("rsmi_dev_pci_id_get", pci_id_);
    library_.find_optional("rsmi_dev_busy_percent_get", busy_);
    library_.find_optional("rsmi_dev_memory_busy_percent_get", memory_busy_);
    library_.find_optional("rsmi_dev_power_ave_get", power_);
    library_.find_optional("rsmi_dev_temp_metric_get", temperature_);
  }
  ~RocmSmi() override {
    if (started_ && shut_down_ != nullptr) shut_down_();
  }

  bool open(const PciAddress& at) {
    if (init_ == nullptr || count_ == nullptr || pci_id_ == nullptr || init_(0) != 0) return false;
    started_ = true;
    uint32_t count = 0;
    if (count_(&count) != 0) return false;
    for (index_ = 0; index_ < count; ++index_) {
      uint64_t id = 0;  // domain << 32 | bus << 8 | device << 3 | function
      if (pci_id_(index_, &id) == 0 && id >> 32 == at.domain && (id >> 8 & 0xff) == at.bus &&
          (id >> 3 & 0x1f) == at.device)
        return true;
    }
    return false;
  }

  void read(rt_utilisation& u) override {
    u.compute_percent = percent(busy_);
    u.memory_percent = percent(memory_busy_);
    const int64_t microwatts = power_ == nullptr ? -1 : ask<uint64_t>([&](uint64_t* value) {
      return power_(index_, 0, value);
    });
    u.power_milliwatts = microwatts < 0 ? -1 : microwatts / 1000;
    constexpr uint32_t kEdge = 0;
    constexpr int kCurrent = 0;
    const int64_t thousandths = temperature_ == nullptr ? -1 : ask<int64_t>([&](int64_t* value) {
      return temperature_(index_, kEdge, kCurrent, value);
    });
    u.temperature_celsius = thousandths < 0 ? -1 : static_cast<int32_t>(thousandths / 1000);
  }

 private:
  using Percent = int(uint32_t, uint32_t*);
  int32_t percent(Percent* function) const {
    if (function == nullptr) return -1;
    return static_cast<int32_t>(
        ask<uint32_t>([&](uint32_t* value) { return function(index_, value); }));
  }

  const Library library_;
  int (*init_)(uint64_t);
  int (*shut_down_)();
  int (*count_)(uint32_t*);
  int (*pci_id_)(uint32_t, uint64_t*);
  Percent *busy_, *memory_busy_;
  int (*power_)(uint32_t, uint32_t, uint64_t*);
  int (*temperature_)(uint32_t, uint32_t, int, int64_t*);
  bool started_ = false;
  uint32_t index_ = 0;
};

template <typename T>
std::unique_ptr<Telemetry> open_with(const PciAddress& address, const char* library) {
  try {
    auto telemetry = std::make_unique<T>(library);
    if (telemetry->open(address)) return telemetry;
  } catch (const rt::sdk::Error&) {
    // The library is not installed, so nothing is known.
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Telemetry> open_nvml(const PciAddress& address, const char* library) {
  return open_with<Nvml>(address, library);
}

std::unique_ptr<Telemetry> open_rocm_smi(const PciAddress& address, const char* library) {
  return open_with<RocmSmi>(address, library);
}

}  // namespace backends::gpu
