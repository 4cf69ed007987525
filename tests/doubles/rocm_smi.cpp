// A double of ROCm SMI with the functions that backends/gpu/telemetry.cpp calls: two devices, the
// second at 0001:c3:00.0. The function for the busy time of the memory is missing, as in some
// versions.
#include <cstdint>

extern "C" {
int rsmi_init(uint64_t) { return 0; }
int rsmi_shut_down() { return 0; }
int rsmi_num_monitor_devices(uint32_t* count) {
  *count = 2;
  return 0;
}
int rsmi_dev_pci_id_get(uint32_t index, uint64_t* id) {
  *id = index == 0 ? 0x0300 : uint64_t{1} << 32 | 0xc300;
  return 0;
}
int rsmi_dev_busy_percent_get(uint32_t index, uint32_t* percent) {
  *percent = 40 + index;
  return 0;
}
int rsmi_dev_power_ave_get(uint32_t index, uint32_t, uint64_t* microwatts) {
  *microwatts = 100'000'000 + index * 1000;
  return 0;
}
int rsmi_dev_temp_metric_get(uint32_t, uint32_t, int, int64_t* thousandths) {
  *thousandths = 61'900;
  return 0;
}
}
