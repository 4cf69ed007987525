// Opens the vendor's libraries that the options allow, and keeps their answers for each operation
// and shape.
#include "backends/gpu/libraries.h"

#include <algorithm>
#include <string_view>

namespace backends::gpu {
namespace {

using rt::sdk::Error;
using rt::sdk::format;

constexpr size_t kMostKept = 4;  // candidates of the libraries for an operation

// A text with everything that the answer of a library depends on.
std::string signature(const Operation& op) {
  std::string text(op.name());
  const auto add = [&](const rt_tensor_desc& t) {
    text += rt::sdk::to_string(t) + format("%llx", static_cast<unsigned long long>(t.layout));
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) add(op.input(i));
  text += '>';
  for (uint32_t i = 0; i < op.output_count(); ++i) add(op.output(i));
  for (uint32_t i = 0; i < op.desc().attribute_count; ++i) {
    const rt_attribute& a = *op.desc().attributes[i];
    text += format(" %s=%lld,%a", a.name, static_cast<long long>(a.integer), a.number);
  }
  for (uint32_t i = 0; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    text += format(" +%d,%d,%d", post.kind, post.function, post.operand);
  }
  return text;
}

}  // namespace

bool boolean_option(const rt_device_options& options, const char* key, bool otherwise) {
  bool answer = otherwise;
  for (uint32_t i = 0; i < options.option_count; ++i) {
    const std::string_view value = options.options[i]->value;
    if (std::string_view(options.options[i]->key) != key) continue;
    answer = value == "true";
    if (answer || value == "false") continue;
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("option '%s' of %s is '%s'; expected true or false", key, kPluginName,
                       options.options[i]->value),
                RT_SCOPE_DEVICE);
  }
  return answer;
}

void Libraries::add(const Open& open, const char* without, const rt_host* host) {
  try {
    libraries_.push_back(open());
  } catch (const Error& reason) {
    if (host == nullptr || host->log == nullptr) return;
    const std::string text = std::string(without) + "; own, slower kernels do it: " + reason.what();
    host->log(host->context, RT_LOG_WARNING, kPluginName, text.c_str());
  }
}

std::vector<Kernel> Libraries::kernels(const Operation& op, size_t most, std::string* without) {
  const std::lock_guard lock(mutex_);
  const std::string text = signature(op);
  auto found = answers_.find(text);
  if (found == answers_.end()) found = answers_.emplace(text, ask(op)).first;
  const Answer& answer = found->second;
  *without = answer.without;
  const auto begin = answer.kernels.begin();
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(most, answer.kernels.size()))};
}

void Libraries::forget(GPU(Stream_t) stream) {
  for (const auto& library : libraries_) library->forget(stream);
}

Libraries::Answer Libraries::ask(const Operation& op) const {
  Answer answer;
  for (const auto& library : libraries_) {
    answer.kernels = library->kernels(op, kMostKept, &answer.without);
    if (!answer.kernels.empty() || !answer.without.empty()) break;
  }
  return answer;
}

}  // namespace backends::gpu
