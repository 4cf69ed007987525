// Reads and writes the frames of a probe's answer, and refuses those that are damaged.
#include "plugins/host/answer.h"

#include <cstring>

#include "plugins/host/printable.h"

namespace plugins::host {
namespace {

struct FrameHeader {
  Frame kind;
  uint32_t bytes;
};

bool is_frame(Frame kind) { return kind >= Frame::kHello && kind <= Frame::kDescription; }

void take(Answer& answer, Frame kind, std::string_view payload) {
  switch (kind) {
    case Frame::kHello:
      answer.hello = payload;
      return;
    case Frame::kStep:
      answer.step = printable(payload);
      return;
    case Frame::kRefusal:
      answer.refusal = printable(payload);
      return;
    case Frame::kDescription:
      answer.description = payload;
      return;
  }
}

}  // namespace

std::string make_frame(Frame kind, std::string_view payload) {
  const FrameHeader header{kind, static_cast<uint32_t>(payload.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  return bytes += payload;
}

Answer read_answer(std::string_view bytes) {
  Answer answer;
  FrameHeader header;
  while (bytes.size() >= sizeof(header) && !answer.complete()) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    bytes.remove_prefix(sizeof(header));
    answer.garbage = !is_frame(header.kind);
    if (answer.garbage || header.bytes > bytes.size()) break;  // the rest has not arrived
    take(answer, header.kind, bytes.substr(0, header.bytes));
    bytes.remove_prefix(header.bytes);
  }
  return answer;
}

}  // namespace plugins::host
