// What plugin_probe writes to the process that started it: a few frames, each with its kind and its
// length in front.
#ifndef PLUGINS_HOST_ANSWER_H_
#define PLUGINS_HOST_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plugins::host {

enum class Frame : uint32_t {
  kHello = 1,        // encoding_version(), before anything of the plugin is touched
  kStep = 2,         // what is done next, as "its entry ran"
  kRefusal = 3,      // why the plugin is refused; the last frame
  kDescription = 4,  // encode(PluginDescription); the last frame
};

std::string make_frame(Frame kind, std::string_view payload);

// As far as it has come. Nothing in it is believed beyond its length.
struct Answer {
  std::optional<std::string> hello;
  std::string step;  // the last one
  std::optional<std::string> refusal, description;
  bool garbage = false;  // there are bytes that are no frame

  bool complete() const { return refusal || description; }
};
Answer read_answer(std::string_view bytes);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_ANSWER_H_
