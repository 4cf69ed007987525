// Reductions by direct exchange: each rank owns a range of the vector, receives this range from all
// others, combines it in the order of ranks and sends the result on. For a reduce-scatter a rank
// sends at most (R-1)/R of its data, and as much again to distribute the results. One rank computes
// each element and rounds it once, so that all ranks hold the same bits. Gloo's ring moves as much
// data, but rounds 16-bit types at each of R-1 hops and has no average.
#ifndef COLLECTIVES_GLOO_REDUCTION_H_
#define COLLECTIVES_GLOO_REDUCTION_H_

#include <array>
#include <memory>
#include <vector>

#include "collectives/shared_memory/combine.h"
#include "collectives/shared_memory/host_collectives.h"
#include "mesh.h"

namespace collectives::gloo {

using shared_memory::bytes_of;
using shared_memory::Combine;
using shared_memory::combine_of;
using shared_memory::equal_parts;
using shared_memory::Range;

using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

// A sum says what is combined, and how.
struct Sum {
  const void* send = nullptr;
  Combine combine = nullptr;
  std::size_t element = 1, result_element = 1;  // bytes of what is sent and of the result
  std::size_t divisor = 1;                      // of averages
};

// One reduction. It runs once and blocks. Throws what Gloo and Transport throw.
class Reduction {
 public:
  // `ranks` take part, this one among them; they are combined in this order. `parts[i]` is the
  // range of the vector that ranks[i] computes. The ranges do not overlap, or all of them are the
  // whole vector.
  Reduction(Mesh& mesh, std::vector<int> ranks, const Sum& sum, std::vector<Range> parts);

  // Computes this rank's range into `result`, which may be the place of that range in `send`.
  void run(void* result);
  // Like run, and sends the results to all ranks (root -1) or to ranks[root]. There `whole` has
  // room for the whole vector, and `result` is the place of the rank's range in it.
  void run_and_share(void* result, void* whole, int root);

 private:
  // The member at this distance from this rank, and its number in the mesh.
  int member(int distance) const { return (rank_ + distance + size_) % size_; }
  int peer(int distance) const { return ranks_[static_cast<std::size_t>(member(distance))]; }
  Range segment(int rank, std::size_t index) const;
  std::size_t segments(int rank) const;
  void post_receives(std::size_t index);
  void post_sends(std::size_t index);
  void combine(std::size_t index, void* result);
  void post_results(std::size_t index);
  void post_result_receives(std::size_t index);
  bool shares_with(int rank) const { return shares_ && (root_ < 0 || root_ == rank); }

  Mesh& mesh_;
  const std::vector<int> ranks_;
  const Sum sum_;
  const int rank_, size_;  // among ranks_
  const std::vector<Range> parts_;
  std::size_t segment_ = 0;  // elements of one segment
  bool overlapping_ = false;
  std::array<Buffer, 2> received_;  // R - 1 segments each, in the scratch memory of the mesh
  Buffer input_, output_, result_;
  std::size_t sends_ = 0, result_sends_ = 0, result_receives_ = 0;
  bool shares_ = false;
  int root_ = -1;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_REDUCTION_H_
