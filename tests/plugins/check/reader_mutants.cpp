// A reader that is broken in one way, which the environment variable RUNTIME_MUTANT names: the
// example of a reader with one function of its table replaced.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rt/plugin.h"
#include "rt/reader.h"

// The entry of the example, which is compiled into this library under another name.
extern "C" rt_status libsvm_entry(const rt_host* host, rt_negotiation* negotiation,
                                  const rt_plugin** plugin, rt_error* error);

namespace {

// A mutant is one process-wide fault, so that these may be global.
rt_reader_api good;
char* lost = nullptr;
rt_reader_format format;
const rt_reader_format* const kFormats[] = {&format};
const rt_reader_format* const kTwice[] = {&format, &format};
std::string mutant;

bool is(std::string_view name) { return mutant == name; }

const rt_reader_format* const* list_formats(void*, uint32_t* count) {
  *count = is("lists_a_format_twice") ? 2 : 1;
  return is("lists_a_format_twice") ? kTwice : kFormats;
}

rt_status open(void* self, const char* name, const rt_dataset_request* request, rt_dataset** data,
               rt_error* error) {
  rt_dataset_request changed = *request;
  if (is("ignores_tails") && request->size > sizeof(changed)) changed.size = sizeof(changed);
  if (is("ignores_options")) changed.option_count = 0;
  if (is("leaks_memory")) lost = new char[1000];
  if (is("leaves_files_open")) static_cast<void>(::open("/dev/null", O_RDONLY));
  const bool whole = !is("ignores_tails") && !is("ignores_options");
  const rt_status status = good.open(self, name, whole ? request : &changed, data, error);
  if (status == RT_OK || error == nullptr) return status;
  if (is("names_no_file")) std::strcpy(error->message, "it did not work");
  if (is("has_no_message")) error->message[0] = '\0';
  if (is("calls_it_internal")) error->code = RT_ERROR_INTERNAL;
  return is("calls_it_internal") ? RT_ERROR_INTERNAL : status;
}

rt_status info(const rt_dataset* data, rt_dataset_info* result, rt_error* error) {
  const bool longer = is("writes_whole_info") && result->size < sizeof(rt_dataset_info);
  rt_dataset_info whole{};
  whole.size = sizeof(whole);
  const rt_status status = good.info(data, longer ? &whole : result, error);
  if (longer) std::memcpy(result, &whole, sizeof(whole));
  if (is("counts_too_few_classes")) result->classes = 1;
  if (is("has_other_targets")) result->target = RT_TARGET_NUMBERS, result->classes = 0;
  return status;
}

// Reads what `wanted` says, of which a part may differ from what the host asked for.
rt_status read_changed(const rt_dataset* data, const rt_samples* asked, uint64_t* filled,
                       rt_error* error) {
  static std::atomic<int64_t> calls{0};
  rt_samples wanted = *asked;
  std::vector<int64_t> indices(asked->indices, asked->indices + asked->count);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (is("ignores_the_indices")) indices[i] = static_cast<int64_t>(i) % 3;
    if (is("depends_on_the_call")) indices[i] = (indices[i] + calls) % 3;
    if (is("sorts_the_indices") && i > 0) std::swap(indices[i], indices[0]);
  }
  ++calls;
  wanted.indices = indices.data();
  if (is("needs_features") && wanted.features == nullptr) return *filled = wanted.count, RT_OK;
  return good.read(data, &wanted, filled, error);
}

// The indices pass through memory that all threads share.
rt_status read_shared(const rt_dataset* data, const rt_samples* asked, uint64_t* filled,
                      rt_error* error) {
  static std::vector<int64_t> shared(4096);
  std::copy_n(asked->indices, asked->count, shared.begin());
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  rt_samples wanted = *asked;
  wanted.indices = shared.data();
  return good.read(data, &wanted, filled, error);
}

rt_status read(const rt_dataset* data, const rt_samples* asked, uint64_t* filled, rt_error* error) {
  if (is("shares_the_indices")) return read_shared(data, asked, filled, error);
  const bool changes = is("ignores_the_indices") || is("depends_on_the_call") ||
                       is("sorts_the_indices") || is("needs_features");
  const rt_status status =
      changes ? read_changed(data, asked, filled, error) : good.read(data, asked, filled, error);
  if (is("writes_one_byte_more") && asked->features != nullptr)
    static_cast<char*>(asked->features)[asked->feature_bytes] ^= 1;
  if (is("counts_one_less") && *filled > 0) --*filled;
  if (is("divides_by_zero") && asked->feature_bytes >= 4) {
    const float infinite = HUGE_VALF;
    std::memcpy(asked->features, &infinite, sizeof(infinite));
  }
  return status;
}

const rt_reader_api kTable = {sizeof(rt_reader_api),
                              RT_READER_API_VERSION,
                              list_formats,
                              open,
                              info,
                              read,
                              [](rt_dataset* data) {
                                if (!is("closes_nothing")) good.close(data);
                              }};

const void* get_interface(void*, const char* name, uint32_t version) {
  const bool reader = std::string_view(name) == RT_INTERFACE_READER && version == 1;
  return reader ? &kTable : nullptr;
}

}  // namespace

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** result, rt_error* error) {
  const char* const named = std::getenv("RUNTIME_MUTANT");
  mutant = named == nullptr ? "" : named;
  const rt_plugin* made = nullptr;
  const rt_status status = libsvm_entry(host, negotiation, &made, error);
  if (status != RT_OK) return status;
  good = *static_cast<const rt_reader_api*>(
      made->get_interface(made->self, RT_INTERFACE_READER, RT_READER_API_VERSION));
  uint32_t count = 0;
  format = *good.formats(made->self, &count)[0];
  if (is("describes_nothing")) format.description = "";
  static std::vector<rt_plugin*> instances;  // never freed: each belongs to a host
  instances.push_back(new rt_plugin(*made));
  instances.back()->get_interface = get_interface;
  *result = instances.back();
  return RT_OK;
}
