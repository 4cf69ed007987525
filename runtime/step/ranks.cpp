// Divides world size and batch among axes, and refuses options that several ranks cannot have.
#include "runtime/step/ranks.h"

#include <string>

#include "runtime/error.h"

namespace runtime::step {

namespace {

using std::to_string;

// Throws unless `good`: `key` is an option that cannot be combined with model parallelism.
void require_data_only(bool good, const std::string& key, const std::string& why) {
  if (good) return;
  throw ConfigurationError(key +
                           " does not go with parallelism.tensor or parallelism.pipeline above "
                           "1: " +
                           why + "; leave one of them out");
}

void check_model_parallel(const config::Config& config) {
  const config::Parallelism& p = config.parallelism;
  require_data_only(!p.asynchronous(), "parallelism.update = \"asynchronous\"",
                    "no rank has the whole model");
  require_data_only(!p.by_speed(), "parallelism.share = \"by_speed\"",
                    "the ranks of one model wait for each other");
  require_data_only(!config.debug.deterministic, "debug.deterministic",
                    "virtual shards are for data-parallel ranks");
  require_data_only(!config.comm.check, "comm.check", "the ranks make different calls");
}

}  // namespace

parallel::Mesh mesh_of(const config::Parallelism& p, int world_size) {
  const int model = p.tensor * p.pipeline;
  const std::string ranks = to_string(world_size);
  if (world_size % model != 0) {
    throw ConfigurationError("parallelism.tensor = " + to_string(p.tensor) +
                             " times pipeline = " + to_string(p.pipeline) + " is " +
                             to_string(model) + ", which does not divide the " + ranks +
                             " ranks; start " + to_string((world_size / model + 1) * model) +
                             " ranks (--nproc), or choose degrees whose product divides " + ranks);
  }
  parallel::Mesh mesh{world_size / model, p.tensor, p.pipeline};
  if (mesh.data > 1) mesh.zero_ranks = p.zero_ranks;  // one rank divides nothing
  if (mesh.data % mesh.partitions() != 0) {
    throw ConfigurationError("parallelism.zero_ranks is " + to_string(p.zero_ranks) +
                             ", which does not divide the " + to_string(mesh.data) +
                             " ranks of the data axis; expected a divisor of them, such as the "
                             "ranks of a machine, or 0");
  }
  if (p.data != -1 && p.data != mesh.data) {
    throw ConfigurationError("parallelism.data is " + to_string(p.data) + ", but " + ranks +
                             " ranks with tensor = " + to_string(p.tensor) +
                             " and pipeline = " + to_string(p.pipeline) + " leave " +
                             to_string(mesh.data) + "; set it to -1 or to " + to_string(mesh.data) +
                             ", or start " + to_string(p.data * model) + " ranks (--nproc)");
  }
  return mesh;
}

config::Config resolve_ranks(config::Config config, int world_size) {
  const parallel::Mesh mesh = mesh_of(config.parallelism, world_size);
  if (mesh.tensor * mesh.pipeline > 1) check_model_parallel(config);
  config::Training& training = config.training;
  if (training.batch_size_per_rank > 0) {
    training.global_batch_size = training.batch_size_per_rank * mesh.data;
    training.batch_size_per_rank = 0;
  }
  const std::string ranks = to_string(mesh.data);
  if (training.global_batch_size < mesh.data) {
    throw ConfigurationError("training.global_batch_size is " +
                             to_string(training.global_batch_size) + ", but there are " + ranks +
                             " ranks, so that some would never have a sample; start at "
                             "most that many ranks, or choose a larger batch");
  }
  if (config.debug.deterministic && config.debug.virtual_shards < mesh.data) {
    throw ConfigurationError(
        "debug.virtual_shards is " + to_string(config.debug.virtual_shards) + ", but there are " +
        ranks + " ranks, and every rank needs a virtual shard; set it to at least " + ranks);
  }
  return config;
}

bool is_asynchronous(const config::Config& config, int world_size) {
  return config.parallelism.asynchronous() && config.parallelism.max_staleness > 0 &&
         world_size > 1;
}

}  // namespace runtime::step
