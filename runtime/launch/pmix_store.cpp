// Asks the processes of a job for keys through PMIx, in turns that avoid its delays.
#include "runtime/launch/pmix_store.h"

#include <pmix.h>

#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace runtime::launch {
namespace {

// The time in which a value that exists arrives. An answer takes a few milliseconds, but the server
// of a process on another host that has not set anything yet answers only when the process does.
constexpr auto kAnswer = std::chrono::milliseconds(200);
// Requests in immediate succession wait 40 ms for TCP's delayed acknowledgement, so each process
// has this long to answer before the next one is asked.
constexpr auto kTurn = std::chrono::milliseconds(5);

// A request for one key that several processes are asked at once. A thread of PMIx reads it and
// fills it in.
struct Question {
  std::string key;
  std::vector<pmix_info_t> directives;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t answered = 0;
  std::optional<std::string> value;
  pmix_status_t trouble = PMIX_SUCCESS;  // the server cannot be reached

  explicit Question(const std::string& name) : key(name) {
    const int seconds = 1;
    PMIX_INFO_LOAD(&directives.emplace_back(), PMIX_TIMEOUT, &seconds, PMIX_INT);
#if PMIX_VERSION_MAJOR < 5
    // PMIx 4 answers from what it has fetched before, in which later keys are missing. In PMIx 5.0
    // the directive hides what ranks of this host have set.
    const bool yes = true;
    PMIX_INFO_LOAD(&directives.emplace_back(), PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
#endif
  }
  void answer(pmix_status_t status, const pmix_value_t* found) {
    const std::lock_guard lock(mutex);
    ++answered;
    if (status == PMIX_SUCCESS && found != nullptr && found->type == PMIX_BYTE_OBJECT)
      value.emplace(found->data.bo.bytes, found->data.bo.size);
    if (status == PMIX_ERR_UNREACH || status == PMIX_ERR_LOST_CONNECTION ||
        status == PMIX_ERR_COMM_FAILURE || status == PMIX_ERR_INIT)
      trouble = status;
    changed.notify_all();
  }
  // Waits until there is a value (returns true) or there are `count` answers.
  bool wait(std::size_t count, std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex);
    changed.wait_until(lock, deadline, [&] { return value || answered >= count; });
    return value.has_value();
  }
};

using Handle = std::shared_ptr<Question>;

// The asking thread may have stopped waiting, so the question lives until all have answered.
void on_answer(pmix_status_t status, pmix_value_t* value, void* context) {
  const std::unique_ptr<Handle> question(static_cast<Handle*>(context));
  (*question)->answer(status, value);
}

pmix_proc_t process(const std::string& space, pmix_rank_t rank) {
  pmix_proc_t result;
  PMIX_LOAD_PROCID(&result, space.c_str(), rank);
  return result;
}

void ask(const Handle& question, const pmix_proc_t& whom) {
  auto handle = std::make_unique<Handle>(question);
  const pmix_status_t status =
      PMIx_Get_nb(&whom, question->key.c_str(), question->directives.data(),
                  question->directives.size(), on_answer, handle.get());
  if (status == PMIX_SUCCESS) {
    (void)handle.release();  // on_answer frees it
  } else {
    question->answer(status, nullptr);
  }
}

// Returns the number in which the key ends, or 0 if there is none.
uint32_t likely_owner(const std::string& key) {
  uint32_t owner = 0;
  std::from_chars(key.data() + key.rfind('/') + 1, key.data() + key.size(), owner);
  return owner;
}

}  // namespace

PmixStore::PmixStore(int world_size) : size_(static_cast<uint32_t>(world_size)) {
  const char* const variable = std::getenv("PMIX_NAMESPACE");
  space_ = variable == nullptr ? "(PMIX_NAMESPACE is not set)" : variable;
  pmix_proc_t own;
  const pmix_status_t status = PMIx_Init(&own, nullptr, 0);
  if (status != PMIX_SUCCESS) fail("joining", status);
  space_ = own.nspace;
  try {
    check_size();
    // A process that has set something can be asked for any key without waiting.
    set("here", "");
  } catch (...) {
    PMIx_Finalize(nullptr, 0);
    throw;
  }
}

PmixStore::~PmixStore() { PMIx_Finalize(nullptr, 0); }

void PmixStore::fail(const std::string& doing, int status) const {
  throw CommunicationError(description() + ": " + doing + ": " + PMIx_Error_string(status) +
                           "; start the ranks with mpirun or srun --mpi=pmix, or set "
                           "comm.rendezvous to \"file\" or \"redis\"");
}

void PmixStore::check_size() const {
  const pmix_proc_t job = process(space_, PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&job, PMIX_JOB_SIZE, nullptr, 0, &value);
  if (status != PMIX_SUCCESS) fail("asking for the number of processes", status);
  const uint32_t size = value->type == PMIX_UINT32 ? value->data.uint32 : 0;
  PMIX_VALUE_RELEASE(value);
  if (size == size_) return;
  throw CommunicationError(description() + ": the launcher has started " + std::to_string(size) +
                           " processes, this rank was told of " + std::to_string(size_) +
                           "; start all ranks with one launcher, or set comm.rendezvous to "
                           "\"file\" or \"redis\"");
}

void PmixStore::set(const std::string& key, const std::string& value) {
  if (key.size() > PMIX_MAX_KEYLEN) fail("key '" + key + "' is too long", PMIX_ERR_BAD_PARAM);
  pmix_value_t object{};
  object.type = PMIX_BYTE_OBJECT;
  object.data.bo.bytes = const_cast<char*>(value.data());  // PMIx copies them
  object.data.bo.size = value.size();
  pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &object);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS) fail("setting '" + key + "'", status);
}

std::optional<std::string> PmixStore::try_get(const std::string& key) {
  const auto begin = std::chrono::steady_clock::now();
  const auto question = std::make_shared<Question>(key);
  const uint32_t owner = likely_owner(key) % size_;
  bool found = false;
  for (uint32_t i = 0; i < size_ && !found; ++i) {
    ask(question, process(space_, (owner + i) % size_));
    found = question->wait(i + 1, std::chrono::steady_clock::now() + kTurn);
  }
  question->wait(size_, begin + kAnswer);
  std::unique_lock lock(question->mutex);
  if (!question->value && question->trouble != PMIX_SUCCESS)
    fail("asking for '" + key + "'", question->trouble);
  return question->value;
}

}  // namespace runtime::launch
