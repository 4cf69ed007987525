// The MPI libraries that the plugin was built with, and how their ranks are started.
#ifndef TESTS_COLLECTIVES_MPI_LIBRARY_H_
#define TESTS_COLLECTIVES_MPI_LIBRARY_H_

#include <ostream>
#include <string>
#include <vector>

#include "tests/collectives/support/job.h"

namespace collectives::testing {

struct MpiLibrary {
  std::string name, plugin, mpiexec;
};
std::ostream& operator<<(std::ostream& stream, const MpiLibrary& library);

// The MPI library that CMake found, and MPICH if it is installed beside it.
std::vector<MpiLibrary> mpi_libraries();

// `command` on `ranks` ranks, started by the library's mpiexec, which is told to allow root and
// more ranks than processors.
JobOptions mpi_job(const MpiLibrary& library, int ranks, std::vector<std::string> command);

}  // namespace collectives::testing

#endif  // TESTS_COLLECTIVES_MPI_LIBRARY_H_
