// rt_plugin_entry: describes the plugin and hands out its tables. Instances have no mutable state.
#include "rt/plugin.h"

#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "backends/cpu/objects.h"
#include "backends/cpu/onednn.h"
#include "rt/sdk/error.h"
#include "rt/sdk/plugin.h"

namespace backends::cpu {
namespace {

// Increase this when a kernel or layout of ours changes, so that tuning results of older builds are
// ignored.
constexpr const char* kKernelRevision = "11";

struct Instance {
  std::string version;
  std::string build_id;
  rt_option_spec winograd{};
  rt_option_spec bf16x3{};
  rt_option_spec isa{};
  const rt_option_spec* specs[3] = {};
  rt_plugin plugin{};
};

const void* get_interface(void*, const char* name, uint32_t version) {
  const std::string_view wanted = name;
  if (wanted == RT_INTERFACE_DEVICE && version == RT_DEVICE_API_VERSION) return &device_api();
  if (wanted == RT_INTERFACE_KERNEL && version == RT_KERNEL_API_VERSION) return &kernel_api();
  return nullptr;
}

const rt_option_spec* const* options(void* self, uint32_t* count) {
  *count = std::size(static_cast<Instance*>(self)->specs);
  return static_cast<Instance*>(self)->specs;
}

void shutdown(void* self) { delete static_cast<Instance*>(self); }

// Builds of a distribution have no hash of git, so that the version has to tell them apart.
std::string build_of(const dnnl_version_t& onednn) {
  const std::string hash = onednn.hash;
  return rt::sdk::format("%d.%d.%d", onednn.major, onednn.minor, onednn.patch) +
         (hash.empty() || hash == "N/A" ? "" : "-" + hash);
}

std::unique_ptr<Instance> make_instance() {
  auto instance = std::make_unique<Instance>();
  const dnnl_version_t* onednn = dnnl_version();
  instance->version = rt::sdk::format(RUNTIME_PLUGIN_VERSION " (oneDNN %d.%d.%d)", onednn->major,
                                      onednn->minor, onednn->patch);
  instance->build_id = std::string("cpu-") + kKernelRevision + "-onednn-" + build_of(*onednn);
  instance->winograd = {sizeof(rt_option_spec), RT_OPTION_BOOLEAN, "winograd", "true",
                        "offer Winograd convolutions: faster, less exact"};
  instance->bf16x3 = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, "bf16x3", "true",
      "where the processor has a matrix unit (AMX), offer float32 products as sums of products of "
      "bfloat16 parts: faster, as exact"};
  instance->isa = {sizeof(rt_option_spec), RT_OPTION_STRING, "isa", "native",
                   "widest instruction set of own kernels and oneDNN: native (what the processor "
                   "has), avx512, avx2 or sse41; one value in a process"};
  instance->specs[0] = &instance->winograd;
  instance->specs[1] = &instance->bf16x3;
  instance->specs[2] = &instance->isa;
  instance->plugin = {sizeof(rt_plugin),
                      0,
                      instance.get(),
                      "cpu",
                      "runtime",
                      instance->version.c_str(),
                      instance->build_id.c_str(),
                      "x86-64 processors by oneDNN and own vectorised kernels",
                      get_interface,
                      options,
                      shutdown};
  return instance;
}

}  // namespace
}  // namespace backends::cpu

rt_status rt_plugin_entry(const rt_host*, rt_negotiation* negotiation, const rt_plugin** plugin,
                          rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, "cpu");
    *plugin = &backends::cpu::make_instance().release()->plugin;
  });
}
