#include "runtime/launch/job_board.h"

#include <sstream>

namespace runtime::launch {
namespace {

using exec::Note;

// "kind exit-code started completed", and from the second line on the text.
std::string to_text(const Note& note) {
  std::ostringstream text;
  text << static_cast<int>(note.kind) << ' ' << note.exit_code << ' ' << note.position.started
       << ' ' << note.position.completed << '\n'
       << note.text;
  return text.str();
}

// A rank whose note cannot be read has written one, so it is not lost: it counts as told.
Note from_text(int rank, const std::string& text) {
  Note note{.rank = rank, .kind = Note::Kind::kTold};
  std::istringstream stream(text);
  int kind = 0, exit_code = 0;
  exec::Position position;
  if (!(stream >> kind >> exit_code >> position.started >> position.completed) ||
      stream.get() != '\n' || kind < 0 || kind > static_cast<int>(Note::Kind::kTold))
    return note;
  note.kind = static_cast<Note::Kind>(kind);
  note.exit_code = exit_code;
  note.position = position;
  note.text = text.substr(text.find('\n') + 1);
  return note;
}

}  // namespace

void StoreJobBoard::post(const Note& note) {
  store_.set(prefix_ + std::to_string(note.rank), to_text(note));
  if (note.kind != Note::Kind::kDone) store_.set(prefix_ + "alarm", std::to_string(note.rank));
}

std::vector<Note> StoreJobBoard::notes() {
  std::vector<Note> notes;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (const auto text = store_.try_get(prefix_ + std::to_string(rank)))
      notes.push_back(from_text(rank, *text));
  }
  return notes;
}

}  // namespace runtime::launch
