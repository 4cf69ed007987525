// Writes notes of ranks as text in a store, and reads those of others with distrust.
#include "runtime/launch/job_board.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "runtime/launch/file_store.h"
#include "runtime/launch/poll.h"

namespace runtime::launch {
namespace {

using watch::Note;

// Writes "kind exit-code silent broken channels", a line for each channel, and the text.
std::string to_text(const Note& note) {
  std::ostringstream text;
  text << static_cast<int>(note.kind) << ' ' << note.exit_code << ' ' << note.silent << ' '
       << note.broken << ' ' << note.channels.size() << '\n';
  for (const watch::ChannelState& state : note.channels) {
    const watch::Channel& channel = state.channel;
    const watch::CollectiveRecord& r = state.pending;
    text << channel.communicator << ' ' << channel.direction << ' ' << channel.peer << ' '
         << state.started << ' ' << r.sequence << ' ' << r.kind << ' ' << r.dtype << ' '
         << r.reduction << ' ' << r.count << ' ' << r.wait_ns << ' ' << r.number << ' '
         << r.micro_batch << ' ' << r.label_text() << '\n';
  }
  text << note.text;
  return text.str();
}

bool read_channel(const std::string& line, watch::ChannelState& state) {
  std::istringstream stream(line);
  watch::CollectiveRecord& r = state.pending;
  watch::Channel& channel = state.channel;
  if (!(stream >> channel.communicator >> channel.direction >> channel.peer >> state.started >>
        r.sequence >> r.kind >> r.dtype >> r.reduction >> r.count >> r.wait_ns >> r.number >>
        r.micro_batch) ||
      stream.get() != ' ')
    return false;
  r.communicator = channel.communicator;
  r.peer = channel.peer;
  std::string label;
  std::getline(stream, label);
  r.set_label(label);
  return true;
}

// A rank whose note cannot be read has written one, so it is not lost; its note counts as kTold.
Note from_text(int rank, const std::string& text) {
  Note unreadable{.rank = rank, .kind = Note::Kind::kTold};
  Note note{.rank = rank};
  std::istringstream stream(text);
  int kind = 0;
  size_t channels = 0;
  if (!(stream >> kind >> note.exit_code >> note.silent >> note.broken >> channels) ||
      stream.get() != '\n' || kind < 0 || kind > static_cast<int>(Note::Kind::kTold))
    return unreadable;
  note.kind = static_cast<Note::Kind>(kind);
  for (std::string line; channels > 0; --channels) {
    if (!std::getline(stream, line) || !read_channel(line, note.channels.emplace_back()))
      return unreadable;
  }
  note.text.assign(std::istreambuf_iterator<char>(stream), {});
  return note;
}

// Rings for a key of the store, or with the bell of the launcher, which may be null. A store that
// cannot be reached is asked again after a while, and does not silence the launcher.
class BoardBell : public watch::Bell {
 public:
  BoardBell(Store& store, std::string key, std::unique_ptr<watch::Bell> launchers)
      : store_(store), key_(std::move(key)), launchers_(std::move(launchers)) {}
  std::vector<int> descriptors() const override {
    std::vector<int> all;
    for (const watch::Bell* const bell : {launchers_.get(), own_.get()}) {
      if (bell == nullptr) continue;
      const std::vector<int> some = bell->descriptors();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  bool rings() override {
    if (launchers_ != nullptr && launchers_->rings()) return true;
    if (own_ == nullptr && Clock::now() < again_) return false;
    try {
      if (own_ == nullptr) own_ = store_.bell(key_);
      return own_->rings();
    } catch (const std::exception&) {
      own_ = nullptr;
      again_ = Clock::now() + kAgain;
      return false;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kAgain{900};

  Store& store_;
  const std::string key_;
  const std::unique_ptr<watch::Bell> launchers_;
  std::unique_ptr<watch::Bell> own_;
  Clock::time_point again_{};
};

// A board that owns its store.
class LauncherBoard : public StoreJobBoard {
 public:
  LauncherBoard(std::unique_ptr<Store> store, int world_size)
      : StoreJobBoard(*store, world_size, "launcher/"), store_(std::move(store)) {}

 private:
  const std::unique_ptr<Store> store_;
};

}  // namespace

void StoreJobBoard::post(const Note& note) {
  store_.set(prefix_ + std::to_string(note.rank), to_text(note));
  if (note.kind != Note::Kind::kDone) store_.set(prefix_ + "alarm", std::to_string(note.rank));
}

std::unique_ptr<watch::Bell> StoreJobBoard::alarm_bell() {
  return std::make_unique<BoardBell>(store_, prefix_ + "alarm",
                                     launcher_ == nullptr ? nullptr : launcher_->alarm_bell());
}

std::vector<Note> StoreJobBoard::notes() {
  std::vector<Note> notes;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (const auto text = store_.try_get(prefix_ + std::to_string(rank)))
      notes.push_back(from_text(rank, *text));
  }
  if (launcher_ == nullptr || !launcher_->alarm()) return notes;
  for (Note& lost : launcher_->notes()) {
    const auto at = std::lower_bound(notes.begin(), notes.end(), lost.rank,
                                     [](const Note& n, int rank) { return n.rank < rank; });
    if (at == notes.end() || at->rank != lost.rank)
      notes.insert(at, std::move(lost));
    else if (at->kind != Note::Kind::kOwnError && lost.kind == Note::Kind::kLost)
      *at = std::move(lost);
  }
  return notes;
}

std::shared_ptr<watch::JobBoard> launcher_board(const std::string& folder, int world_size) {
  return std::make_shared<LauncherBoard>(std::make_unique<FileStore>(folder), world_size);
}

std::optional<std::string> AttendedStore::try_get(const std::string& key) {
  look_at_launcher();
  return store_->try_get(key);
}

std::optional<std::string> AttendedStore::wait_for(const std::string& key,
                                                   std::chrono::nanoseconds at_most) {
  constexpr std::chrono::milliseconds kTurn(100);
  return wait_in_turns(at_most, kTurn, [&](std::chrono::milliseconds turn) {
    look_at_launcher();
    return store_->wait_for(key, turn);
  });
}

void AttendedStore::look_at_launcher() const {
  if (!launcher_->alarm()) return;
  const std::vector<Note> notes = launcher_->notes();
  const auto is_lost = [](const Note& note) { return note.kind == Note::Kind::kLost; };
  auto cause = std::find_if(notes.begin(), notes.end(), is_lost);
  if (cause == notes.end()) cause = notes.begin();
  if (cause == notes.end()) return;
  throw CommunicationError("rank " + std::to_string(cause->rank) + " of " +
                           std::to_string(launcher_->world_size()) +
                           (is_lost(*cause) ? " is lost: " : " gave up because of another one: ") +
                           cause->text + "; look at its output, then start the job again");
}

}  // namespace runtime::launch
