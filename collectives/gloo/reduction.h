// Reductions by direct exchange: each rank gets a part of the vector from all others, combines it
// in the order of ranks and hands the result on. No rank sends more than (R-1)/R of its data for a
// reduce-scatter, and as much again to share the results; every element is computed by one rank and
// rounded once, so that all ranks hold the same bits. Gloo's ring moves as much, but rounds 16-bit
// types at each of R-1 hops and has no average.
#ifndef COLLECTIVES_GLOO_REDUCTION_H_
#define COLLECTIVES_GLOO_REDUCTION_H_

#include <array>
#include <memory>
#include <vector>

#include "combine.h"
#include "mesh.h"

namespace collectives::gloo {

using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

// Elements of a vector.
struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
};

// One reduction; runs once, blocks. Throws what Gloo and Wires throw.
class Reduction {
 public:
  // parts[r]: what rank r computes, of the vector `send`. Parts do not overlap, or all are the
  // whole vector.
  Reduction(Mesh& mesh, const rt_collective& call, std::vector<Range> parts);

  // Computes the own part into `result`, which may be the place of that part in `send`.
  void run(void* result);
  // As run, and shares the results: with all ranks (root -1) or with one. Those have `whole`, room
  // for all parts, and their own result lies in it.
  void run_and_share(void* result, void* whole, int root);

 private:
  Range segment(int rank, std::size_t index) const;
  std::size_t segments(int rank) const;
  void post_receives(std::size_t index);
  void post_sends(std::size_t index);
  void combine(std::size_t index, void* result);
  void post_results(std::size_t index);
  void post_result_receives(std::size_t index);
  bool shares_with(int rank) const { return shares_ && (root_ < 0 || root_ == rank); }

  Mesh& mesh_;
  const int rank_, size_;
  const std::vector<Range> parts_;
  const std::size_t element_;  // bytes
  const Combine combine_;
  const char* const send_;
  std::size_t segment_ = 0;  // elements
  bool overlapping_ = false;
  std::array<Buffer, 2> received_;  // R - 1 segments each, in the scratch of the mesh
  Buffer input_, output_, result_;
  std::size_t sends_ = 0, result_sends_ = 0, result_receives_ = 0;
  bool shares_ = false;
  int root_ = -1;
};

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_REDUCTION_H_
