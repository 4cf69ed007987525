// Random networks and meshes, and the program of each of their ranks.
#ifndef TESTS_RUNTIME_TRAIN_RANDOM_MESHES_H_
#define TESTS_RUNTIME_TRAIN_RANDOM_MESHES_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/mesh.h"
#include "runtime/train/rank/step_programs.h"
#include "tests/runtime/train/mesh_nets.h"

namespace runtime::train {

class Random {
 public:
  explicit Random(int seed) : engine_(seed) {}
  int number(int from, int to) { return from + static_cast<int>(engine_() % (to - from + 1)); }
  bool chance(int percent) { return number(1, 100) <= percent; }
  std::string one_of(const std::vector<std::string>& list) {
    return list[number(0, static_cast<int>(list.size()) - 1)];
  }

 private:
  std::mt19937 engine_;
};

// A configuration of convolutions whose few channels need not divide evenly among the ranks, around
// residual connections.
std::string random_net(Random& r);

// A GPT of random depth, whose heads and vocabulary need not divide evenly among the ranks; its
// first and last stage share a matrix.
std::string random_gpt(Random& r, const std::string& text_file);

struct RandomMesh {
  parallel::Mesh mesh;
  Settings settings;

  explicit RandomMesh(Random& r);
};

// The program of one rank, planned without any other rank.
graph::Graph program_of(const config::Config& config, const PlannedRank& rank,
                        step::Purpose purpose,
                        const std::shared_ptr<plugins::host::Device>& device);

}  // namespace runtime::train

#endif  // TESTS_RUNTIME_TRAIN_RANDOM_MESHES_H_
