// Turns error codes of MPI into errors of the C interface of plugins (rt_status).
#ifndef COLLECTIVES_MPI_STATUS_H_
#define COLLECTIVES_MPI_STATUS_H_

#include <mpi.h>

#include <string>

#include "rt/sdk/error.h"

namespace collectives::mpi {

// Throws rt::sdk::Error unless `code` is MPI_SUCCESS. `what` is the name of the MPI function.
inline void check(int code, const char* what, int32_t scope = RT_SCOPE_COMMUNICATOR) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0, error_class = MPI_ERR_OTHER;
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &error_class);
  std::string message = std::string(what) + ": " + text;
  if (error_class == MPI_ERR_TRUNCATE) {
    message += "; the other rank passed more elements than this one";
  }
  throw rt::sdk::Error(
      error_class == MPI_ERR_NO_MEM ? RT_ERROR_OUT_OF_MEMORY : RT_ERROR_COMMUNICATION,
      std::move(message), scope)
      .native("MPI", code);
}

}  // namespace collectives::mpi

#endif  // COLLECTIVES_MPI_STATUS_H_
