// Helpers for the cases of the communicator checks: the session of a rank, and one collective in
// flight with its buffers.
#ifndef PLUGINS_CONFORMANCE_SESSION_H_
#define PLUGINS_CONFORMANCE_SESSION_H_

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/conformance/call.h"
#include "plugins/conformance/communicator_case.h"
#include "plugins/conformance/values.h"

namespace plugins::conformance {

// Thrown by Session::require. All ranks throw it in the same cases, because their capabilities are
// equal.
class Skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One run of a case on this rank. Wrong data are recorded as findings instead of thrown, so that
// the ranks keep making the same calls.
class Session {
 public:
  explicit Session(const CommunicatorWorld& world);

  const CommunicatorWorld& world() const { return world_; }
  const Team& team() const { return team_; }
  uint32_t flags() const { return flags_; }
  int32_t memory_kind() const;

  // Whether the plugin's capabilities claim the call.
  bool claims(const Call& call) const;
  void require(const Call& call) const;        // throws Skip unless the plugin claims it
  void require_ranks(int32_t smallest) const;  // throws Skip in a smaller world
  // Records the finding `otherwise` unless `holds`.
  void expect(bool holds, const std::string& otherwise);
  const std::vector<std::string>& findings() const { return findings_; }

  // A collective call over the ranks of `parent`. `colors` and `keys` hold the values of every rank
  // of `parent`. Returns nullopt for a rank without a team.
  std::optional<Team> split(const Team& parent, const std::vector<int32_t>& colors,
                            const std::vector<int32_t>& keys);

 private:
  CommunicatorWorld world_;
  Team team_;
  std::vector<rt_comm_capability> rows_;
  uint32_t flags_ = 0;
  std::vector<std::string> findings_;
};

// A buffer in the memory that the communicator wants, with guard bytes behind it. With 0 bytes
// there is no memory, and data() is NULL.
class CommunicatorBuffer {
 public:
  CommunicatorBuffer(host::Device* device, uint64_t bytes);
  std::byte* data() const;  // the address for the communicator
  Bytes& host() { return host_; }
  // upload() copies host() to the device, download() back; without a device they copy nothing.
  void upload();
  bool download();  // false if a guard byte has changed
 private:
  uint64_t bytes_;
  Bytes host_;
  std::shared_ptr<host::Device> device_;
  host::Memory memory_;
};

// A collective with its buffers. Several may be in flight between start() and finish(). An Exchange
// must outlive its work.
class Exchange {
 public:
  Exchange(Session& session, const Team& team, const Call& call);
  void start();
  bool poll() { return work_.poll(); }
  void wait(std::chrono::nanoseconds timeout) { work_.wait(timeout); }
  void check();   // after completion: checks data, guards, unchanged send
  void finish();  // wait() and check()
  void run();     // start() and finish()
  const Bytes& received() { return receive_.host(); }

 private:
  uint64_t sent_count() const;
  uint64_t received_count() const;
  Session& session_;
  Team team_;
  Call call_;
  CommunicatorBuffer send_, receive_;              // in place: only `receive_` is used
  uint64_t send_offset_ = 0, receive_offset_ = 0;  // offsets in elements
  host::Work work_;
};

// Returns the error that `call` throws; nullopt if it succeeds.
std::optional<host::Error> error_of(const std::function<void()>& call);

}  // namespace plugins::conformance

#endif  // PLUGINS_CONFORMANCE_SESSION_H_
