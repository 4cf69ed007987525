// The options of the plugin `cuda`, and its libraries.
#include "backends/gpu/vendor.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>

#include "backends/cuda/provider.h"

namespace backends::gpu {
namespace {

using rt::sdk::Error;

constexpr size_t kMostKept = 4;  // ways of doing an operation
constexpr char kLibraries[] = "vendor_libraries", kTf32[] = "tf32";

bool read_boolean(const rt_option& option) {
  const std::string_view value = option.value;
  if (value == "true" || value == "false") return value == "true";
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              rt::sdk::format("option '%s' of cuda is '%s'; expected true or false", option.key,
                              option.value),
              RT_SCOPE_DEVICE);
}

// All that an answer depends on.
std::string signature(const Operation& op) {
  std::string text(op.name());
  for (uint32_t i = 0; i < op.input_count(); ++i) text += rt::sdk::to_string(op.input(i));
  for (uint32_t i = 0; i < op.output_count(); ++i) text += '>' + rt::sdk::to_string(op.output(i));
  for (uint32_t i = 0; i < op.desc().attribute_count; ++i) {
    const rt_attribute& a = *op.desc().attributes[i];
    text += rt::sdk::format(" %s=%lld,%a", a.name, static_cast<long long>(a.integer), a.number);
  }
  for (uint32_t i = 0; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    text += rt::sdk::format(" +%d,%d,%d", post.kind, post.function, post.operand);
  }
  return text;
}

// Asks one library after the other. Answers are kept: layers are alike, and some plans take a
// second to make.
class Libraries : public Vendor {
 public:
  // A library that does not open leaves its operations to the own kernels.
  template <typename Open>
  void add(Open open, bool tf32, const char* what, const rt_host* host) {
    try {
      libraries_.push_back(open(tf32));
    } catch (const Error& reason) {
      if (host == nullptr || host->log == nullptr) return;
      const std::string text = std::string(what) + "; own, slower kernels do it: " + reason.what();
      host->log(host->context, RT_LOG_WARNING, "cuda", text.c_str());
    }
  }
  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override {
    const std::lock_guard lock(mutex_);
    const std::string text = signature(op);
    auto found = answers_.find(text);
    if (found == answers_.end()) found = answers_.emplace(text, ask(op)).first;
    const Answer& answer = found->second;
    *without = answer.without;
    const auto begin = answer.kernels.begin();
    return {begin, begin + static_cast<std::ptrdiff_t>(std::min(most, answer.kernels.size()))};
  }

 private:
  struct Answer {
    std::vector<Kernel> kernels;
    std::string without;
  };

  Answer ask(const Operation& op) const {
    Answer answer;
    for (const auto& library : libraries_) {
      answer.kernels = library->kernels(op, kMostKept, &answer.without);
      if (!answer.kernels.empty() || !answer.without.empty()) break;
    }
    return answer;
  }

  std::vector<std::unique_ptr<Vendor>> libraries_;
  std::mutex mutex_;
  std::map<std::string, Answer> answers_;  // guarded by mutex_
};

}  // namespace

const rt_option_spec* const* vendor_options(void*, uint32_t* count) {
  static const rt_option_spec libraries = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kLibraries, "true",
      "cuBLASLt multiplies matrices and cuDNN convolves; false: own kernels, slower"};
  static const rt_option_spec tf32 = {
      sizeof(rt_option_spec), RT_OPTION_BOOLEAN, kTf32, "false",
      "float32 products on tensor cores: much faster, with 3 digits instead of 7"};
  static const rt_option_spec* const specs[] = {&libraries, &tf32};
  *count = std::size(specs);
  return specs;
}

std::unique_ptr<Vendor> open_vendor(const rt_device_options& options, const Properties&,
                                    const rt_host* host) {
  bool wanted = true, tf32 = false;
  for (uint32_t i = 0; i < options.option_count; ++i) {
    const std::string_view key = options.options[i]->key;
    if (key == kLibraries) wanted = read_boolean(*options.options[i]);
    if (key == kTf32) tf32 = read_boolean(*options.options[i]);
  }
  if (!wanted && tf32) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                "option 'tf32' of cuda needs vendor_libraries = true: own kernels multiply float32 "
                "exactly",
                RT_SCOPE_DEVICE);
  }
  if (!wanted) return nullptr;
  auto made = std::make_unique<Libraries>();
#if defined(BACKENDS_CUDA_CUBLASLT)
  made->add(cuda::open_cublaslt, tf32, "matmul is without cuBLASLt", host);
#endif
#if defined(BACKENDS_CUDA_CUDNN)
  made->add(cuda::open_cudnn, tf32, "convolutions are without cuDNN", host);
#endif
  return made;
}

}  // namespace backends::gpu
