// rt_plugin_entry: describes the plugin and hands out its tables. Instances have no mutable state.
#include <string>

#include "backends/cpu/objects.h"
#include "backends/cpu/onednn.h"
#include "rt/sdk/device_table.h"

namespace backends::cpu {
namespace {

// Increase this when a kernel or layout of ours changes, so that tuning results of older builds are
// ignored.
constexpr const char* kKernelRevision = "11";

constexpr rt_option_spec kWinogradOption = {sizeof(rt_option_spec), RT_OPTION_BOOLEAN, "winograd",
                                            "true",
                                            "offer Winograd convolutions: faster, less exact"};
constexpr rt_option_spec kBf16x3Option = {
    sizeof(rt_option_spec), RT_OPTION_BOOLEAN, "bf16x3", "true",
    "where the processor has a matrix unit (AMX), offer float32 products as sums of products of "
    "bfloat16 parts: faster, as exact"};
constexpr rt_option_spec kIsaOption = {
    sizeof(rt_option_spec), RT_OPTION_STRING, "isa", "native",
    "widest instruction set of own kernels and oneDNN: native (what the processor has), avx512, "
    "avx2 or sse41; one value in a process"};
constexpr const rt_option_spec* kOptions[] = {&kWinogradOption, &kBf16x3Option, &kIsaOption};

constinit const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();

// Builds of a distribution have no hash of git, so that the version has to tell them apart.
std::string build_of(const dnnl_version_t& onednn) {
  const std::string hash = onednn.hash;
  return rt::sdk::format("%d.%d.%d", onednn.major, onednn.minor, onednn.patch) +
         (hash.empty() || hash == "N/A" ? "" : "-" + hash);
}

rt::sdk::PluginDescription description() {
  const dnnl_version_t& onednn = *dnnl_version();
  return {.name = "cpu",
          .vendor = "runtime",
          .version = rt::sdk::format(RUNTIME_PLUGIN_VERSION " (oneDNN %d.%d.%d)", onednn.major,
                                     onednn.minor, onednn.patch),
          .build_id = std::string("cpu-") + kKernelRevision + "-onednn-" + build_of(onednn),
          .description = "x86-64 processors by oneDNN and own vectorised kernels",
          .device = &kDeviceApi,
          .kernel = &kKernelApi,
          .options = kOptions};
}

}  // namespace
}  // namespace backends::cpu

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using backends::cpu::Devices;
  return rt::sdk::make_plugin<Devices>(backends::cpu::description, host, negotiation, plugin,
                                       error);
}
