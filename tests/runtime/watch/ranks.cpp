// Ranks as processes with a board in shared memory, for tests of the watchdog.
#include "tests/runtime/watch/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>

namespace runtime::watch {

rt_collective all_reduce(uint64_t count) {
  rt_collective c{};
  c.size = sizeof(c);
  c.kind = RT_ALL_REDUCE;
  c.dtype = RT_FLOAT32;
  c.reduction = RT_SUM;
  c.count = count;
  c.peer = -1;
  return c;
}

namespace {

class EventBell : public Bell {
 public:
  EventBell(int event, std::function<bool()> rings) : event_(event), rings_(std::move(rings)) {}
  std::vector<int> descriptors() const override { return {event_}; }
  bool rings() override { return rings_(); }

 private:
  const int event_;
  const std::function<bool()> rings_;
};

}  // namespace

SharedBoard::SharedBoard(int world_size)
    : world_size_(world_size),
      alarm_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      verdict_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  shared_ = new (memory) Shared();
}

SharedBoard::~SharedBoard() { ::munmap(shared_, sizeof(Shared)); }

void SharedBoard::post(const Note& note) {
  Slot& slot = shared_->slots[note.rank][note.kind == Note::Kind::kDone ? 0 : 1];
  if (slot.written) throw std::runtime_error("two notes of one rank");
  slot.kind = note.kind;
  slot.channels = std::min(note.channels.size(), slot.channel.size());
  std::copy_n(note.channels.begin(), slot.channels, slot.channel.begin());
  slot.silent = note.silent;
  slot.broken = note.broken;
  slot.exit_code = note.exit_code;
  note.text.copy(slot.text.data(), slot.text.size() - 1);
  slot.written = true;
  if (note.kind != Note::Kind::kDone) ::eventfd_write(alarm_event_.get(), 1);
}

std::unique_ptr<Bell> SharedBoard::alarm_bell() {
  return std::make_unique<EventBell>(alarm_event_.get(), [this] { return alarm(); });
}

bool SharedBoard::alarm() {
  return std::ranges::any_of(shared_->slots, [](auto& rank) { return rank[1].written.load(); });
}

void SharedBoard::post(const Verdict& verdict) {
  if (shared_->verdicts++ > 0) return;
  Slot& slot = shared_->verdict;
  slot.silent = verdict.rank;
  slot.exit_code = verdict.exit_code;
  for (const int rank : verdict.lost) shared_->lost[rank] = true;
  verdict.text.copy(slot.text.data(), slot.text.size() - 1);
  slot.written = true;
  ::eventfd_write(verdict_event_.get(), 1);
}

std::optional<Verdict> SharedBoard::verdict() {
  const Slot& slot = shared_->verdict;
  if (!slot.written) return std::nullopt;
  Verdict verdict{slot.silent, slot.exit_code, {}, slot.text.data()};
  for (int rank = 0; rank < world_size_; ++rank)
    if (shared_->lost[rank]) verdict.lost.push_back(rank);
  return verdict;
}

std::unique_ptr<Bell> SharedBoard::verdict_bell() {
  return std::make_unique<EventBell>(verdict_event_.get(),
                                     [this] { return shared_->verdict.written.load(); });
}

std::unique_ptr<JobBoard> SharedBoard::inquiry(int number) {
  throw std::logic_error("inquiry " + std::to_string(number));
}

std::vector<Note> SharedBoard::notes() {
  std::vector<Note> notes;
  for (int rank = 0; rank < world_size_; ++rank) {
    for (const int i : {1, 0}) {
      const Slot& slot = shared_->slots[rank][i];
      if (!slot.written) continue;
      notes.push_back({rank,
                       slot.kind,
                       slot.text.data(),
                       {slot.channel.begin(), slot.channel.begin() + slot.channels},
                       slot.exit_code,
                       slot.silent,
                       slot.broken});
      break;
    }
  }
  return notes;
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "watchdog.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::map<int, RankRecords> read_recorders(const std::filesystem::path& folder, int ranks) {
  std::map<int, RankRecords> known;
  for (int rank = 0; rank < ranks; ++rank) {
    if (auto records = read_recorder(folder, rank)) known[rank] = std::move(*records);
  }
  return known;
}

std::string message_of(const std::function<void()>& work, ExitCode* code) {
  try {
    work();
  } catch (const Error& e) {
    if (code != nullptr) *code = e.exit_code();
    return e.what();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

bool becomes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

Processes::Processes(int count, const std::filesystem::path& folder,
                     const std::function<void(int)>& rank)
    : folder_(folder) {
  for (int k = 0; k < count; ++k) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("fork failed");
    if (pid > 0) {
      pids_.push_back(pid);
      continue;
    }
    ::alarm(40);  // ends the process even if the test fails to
    const int fd = ::open((folder / (std::to_string(k) + ".err")).c_str(),
                          O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDERR_FILENO);
    ExitCode code = ExitCode::kDone;
    const std::string message = message_of([&] { rank(k); }, &code);
    if (!message.empty()) std::fprintf(stderr, "%s\n", message.c_str());
    ::_exit(static_cast<int>(code));
  }
}

Processes::~Processes() {
  for (const pid_t pid : pids_) {
    if (pid == 0) continue;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void Processes::signal(int rank, int number) const { ::kill(pids_[rank], number); }

int Processes::exit_code(int rank) {
  int status = 0;
  if (!becomes_true([&] { return ::waitpid(pids_[rank], &status, WNOHANG) == pids_[rank]; }))
    return -1;
  pids_[rank] = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string Processes::errors(int rank) const {
  return read_text(folder_ / (std::to_string(rank) + ".err"));
}

}  // namespace runtime::watch
