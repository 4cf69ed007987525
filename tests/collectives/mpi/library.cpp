// Starts ranks with the mpiexec that belongs to the library under test.
#include "tests/collectives/mpi/library.h"

namespace collectives::testing {

std::ostream& operator<<(std::ostream& stream, const MpiLibrary& library) {
  return stream << library.name;
}

std::vector<MpiLibrary> mpi_libraries() {
  std::vector<MpiLibrary> libraries = {{"found", MPI_PLUGIN, MPIEXEC}};
#ifdef MPICH_PLUGIN
  libraries.push_back({"mpich", MPICH_PLUGIN, MPICH_MPIEXEC});
#endif
  return libraries;
}

JobOptions mpi_job(const MpiLibrary& library, int ranks, std::vector<std::string> command) {
  return {.command = std::move(command),
          .launcher = {library.mpiexec, "-n", std::to_string(ranks)},
          .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                          {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                          {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                          {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
                          {"PRTE_MCA_hwloc_default_binding_policy", "none"}},
          .limit = std::chrono::seconds(200)};
}

}  // namespace collectives::testing
