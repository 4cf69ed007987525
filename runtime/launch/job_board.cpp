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
using watch::Verdict;

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
         << r.micro_batch << ' ' << r.step << ' ' << r.label_text() << '\n';
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
        r.micro_batch >> r.step) ||
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

// Writes "rank exit-code lost-ranks", the ranks that are lost, and the text.
std::string to_text(const Verdict& verdict) {
  std::ostringstream text;
  text << verdict.rank << ' ' << verdict.exit_code << ' ' << verdict.lost.size();
  for (const int rank : verdict.lost) text << ' ' << rank;
  text << '\n' << verdict.text;
  return text.str();
}

// Returns nothing if the text is not what a rank of so many has written.
std::optional<Verdict> verdict_of(const std::string& text, int world_size) {
  Verdict verdict;
  std::istringstream stream(text);
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < world_size; };
  size_t lost = 0;
  if (!(stream >> verdict.rank >> verdict.exit_code >> lost) || !is_rank(verdict.rank) ||
      verdict.exit_code < 1 || verdict.exit_code > 255 || lost > static_cast<size_t>(world_size))
    return std::nullopt;
  for (; lost > 0; --lost) {
    int& rank = verdict.lost.emplace_back();
    if (!(stream >> rank) || !is_rank(rank)) return std::nullopt;
  }
  if (stream.get() != '\n') return std::nullopt;
  verdict.text.assign(std::istreambuf_iterator<char>(stream), {});
  return verdict;
}

// Rings for a key of the store, or with the bell of the launcher, which may be null. A store that
// cannot be reached is asked again after a while, and does not silence the launcher. `*rung`, if
// not null, becomes true when the key is set.
class BoardBell : public watch::Bell {
 public:
  BoardBell(Store& store, std::string key, std::unique_ptr<watch::Bell> launchers,
            std::atomic<bool>* rung)
      : store_(store), key_(std::move(key)), launchers_(std::move(launchers)), rung_(rung) {}
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
      const bool rings = own_->rings();
      if (rung_ != nullptr) *rung_ = rings;
      return rings;
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
  std::atomic<bool>* const rung_;
  std::unique_ptr<watch::Bell> own_;
  Clock::time_point again_{};
};

// A board that owns its store.
class LauncherBoard : public StoreJobBoard {
 public:
  LauncherBoard(std::unique_ptr<Store> store, int world_size)
      : StoreJobBoard(*store, world_size, "launcher/"), store_(std::move(store)) {
    most_asked_ = world_size;
  }

 private:
  const std::unique_ptr<Store> store_;
};

}  // namespace

void StoreJobBoard::post(const Note& note) {
  store_.set(key_of(note.rank), to_text(note));
  if (note.kind != Note::Kind::kDone && !rung_)
    store_.set(prefix_ + "alarm", std::to_string(note.rank));
}

std::unique_ptr<watch::Bell> StoreJobBoard::alarm_bell() {
  return std::make_unique<BoardBell>(
      store_, prefix_ + "alarm", launcher_ == nullptr ? nullptr : launcher_->alarm_bell(), &rung_);
}

void StoreJobBoard::post(const Verdict& verdict) {
  store_.set(prefix_ + "verdict", to_text(verdict));
}

std::optional<Verdict> StoreJobBoard::verdict() {
  const std::optional<std::string> text = store_.try_get(prefix_ + "verdict");
  return text ? verdict_of(*text, world_size_) : std::nullopt;
}

std::unique_ptr<watch::Bell> StoreJobBoard::verdict_bell() {
  return std::make_unique<BoardBell>(store_, prefix_ + "verdict", nullptr, nullptr);
}

// A rank that is done may still leave another note; all other notes are the last ones.
void StoreJobBoard::read_notes() {
  for (int i = 0, asked = 0; i < world_size_ && asked < most_asked_; ++i) {
    const int rank = next_;
    next_ = (next_ + 1) % world_size_;
    const auto known = notes_.find(rank);
    if (known != notes_.end() && known->second.kind != Note::Kind::kDone) continue;
    if (auto note = read_note(rank)) notes_[rank] = *std::move(note);
    ++asked;
  }
}

std::optional<Note> StoreJobBoard::read_note(int rank) {
  if (const auto text = store_.try_get(key_of(rank))) return from_text(rank, *text);
  if (done_prefix_.empty()) return std::nullopt;
  const auto text = store_.try_get(done_prefix_ + std::to_string(rank));
  if (!text) return std::nullopt;
  Note note = from_text(rank, *text);
  return note.kind == Note::Kind::kDone ? std::optional(std::move(note)) : std::nullopt;
}

void StoreJobBoard::add_what_the_launcher_says() {
  if (launcher_ == nullptr || !launcher_->alarm()) return;
  for (const Note& said : launcher_->notes()) {
    if (!notes_.contains(said.rank))
      if (auto own = read_note(said.rank)) notes_[said.rank] = *std::move(own);
    const auto [note, is_new] = notes_.try_emplace(said.rank, said);
    const bool counts =
        said.kind == Note::Kind::kLost && note->second.kind != Note::Kind::kOwnError;
    if (!is_new && (!counts || note->second.kind == Note::Kind::kLost)) continue;
    note->second = said;
    if (counts && several_hosts_) store_.set(key_of(said.rank), to_text(said));
  }
}

std::unique_ptr<watch::JobBoard> StoreJobBoard::inquiry(int number) {
  auto board = std::make_unique<StoreJobBoard>(store_, world_size_,
                                               prefix_ + "wait-" + std::to_string(number) + "/");
  board->done_prefix_ = prefix_;
  return board;
}

// One relay is enough, because ranks that ask all others go on looking.
void StoreJobBoard::relay() {
  const std::lock_guard lock(mutex_);
  if (relayed_ || !several_hosts_ || launcher_ == nullptr || !launcher_->alarm()) return;
  add_what_the_launcher_says();
  relayed_ = true;
}

std::vector<Note> StoreJobBoard::notes() {
  const std::lock_guard lock(mutex_);
  read_notes();
  add_what_the_launcher_says();
  std::vector<Note> notes;
  for (const auto& [rank, note] : notes_) notes.push_back(note);
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
