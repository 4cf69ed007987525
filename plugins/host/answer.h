// The bytes that plugin_probe writes to the process that started it: a few frames. Each frame
// begins with its kind and its length in bytes.
#ifndef PLUGINS_HOST_ANSWER_H_
#define PLUGINS_HOST_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plugins::host {

enum class Frame : uint32_t {
  kHello = 1,        // encoding_version(); sent before the plugin is touched
  kStep = 2,         // the step that begins, worded to follow "did not answer while"
  kRefusal = 3,      // why the plugin is refused; the last frame
  kDescription = 4,  // encode(PluginDescription); the last frame
};

// One frame as bytes. `payload` must be shorter than 4 GiB.
std::string make_frame(Frame kind, std::string_view payload);

// The frames that have arrived so far. The payloads are not trusted: nothing but their length has
// been checked.
struct Answer {
  std::optional<std::string> hello;
  std::string step;  // payload of the last kStep frame
  std::optional<std::string> refusal, description;
  bool garbage = false;  // the bytes hold something that is not a frame

  // Whether a last frame has arrived.
  bool complete() const { return refusal || description; }
};
// Reads all complete frames of `bytes`; ignores a frame that has not arrived completely. Does not
// throw for wrong bytes, see Answer::garbage.
Answer read_answer(std::string_view bytes);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_ANSWER_H_
