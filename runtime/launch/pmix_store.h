// The key-value store of a launcher (mpirun, srun --mpi=pmix), through PMIx.
#ifndef RUNTIME_LAUNCH_PMIX_STORE_H_
#define RUNTIME_LAUNCH_PMIX_STORE_H_

#include <cstdint>

#include "runtime/launch/bells.h"
#include "runtime/launch/store.h"

namespace runtime::launch {

// PMIx keeps values by the process that has set them, but the user of a Store does not know which
// one that is. The rank in which the key ends is asked first, then the others. (PMIx's publish and
// lookup do not need this, but Slurm lacks them.) Each process of the namespace that opens the
// store can be asked until it ends; what it has set is then lost to ranks on other hosts that have
// not asked yet.
class PmixStore : public Store {
 public:
  // PMIx counts its users in a process, so MPI may use it as well. Throws CommunicationError if the
  // launcher has not started `world_size` processes.
  explicit PmixStore(int world_size);
  ~PmixStore() override;
  PmixStore(const PmixStore&) = delete;
  PmixStore& operator=(const PmixStore&) = delete;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::unique_ptr<watch::Bell> bell(const std::string& key) override {
    return asking_bell(*this, key);
  }
  std::string description() const override { return "PMIx namespace " + space_; }
  bool fresh() const override { return true; }  // each job has a namespace of its own

 private:
  void check_size() const;
  [[noreturn]] void fail(const std::string& doing, int status) const;

  std::string space_;
  uint32_t size_;
};

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_PMIX_STORE_H_
