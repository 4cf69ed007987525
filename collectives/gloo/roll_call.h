// Who is late? Each rank keeps a send of its progress open for every other rank. Gloo's I/O thread
// carries it out when the other asks, even while the rank computes; a rank that is stopped, or
// behind a dead link, does not answer.
#ifndef COLLECTIVES_GLOO_ROLL_CALL_H_
#define COLLECTIVES_GLOO_ROLL_CALL_H_

#include <memory>
#include <string>
#include <vector>

#include "mesh.h"

namespace collectives::gloo {

// came, ask and describe: by the thread that calls the communicator.
class RollCall {
 public:
  explicit RollCall(Mesh& mesh);

  // This rank has come to one more collective.
  void came();

  // Asks all others; does not wait. False: it has asked kQuestions times already.
  bool ask();
  // What they have answered since: "rank 2 does not answer", "rank 3 has come to 5 collectives of
  // 6". `names` as in Communicator. Empty if all have come.
  std::string describe(const std::vector<int>& names);

 private:
  static constexpr int kQuestions = 8;

  Mesh& mesh_;
  int64_t mine_ = 0;             // collectives; read by Gloo's thread
  std::vector<int64_t> theirs_;  // by rank, kUnknown until it answers; written by Gloo's thread
  std::unique_ptr<::gloo::transport::UnboundBuffer> answer_, question_;
  int asked_ = 0;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_ROLL_CALL_H_
