// Finds the functions of cuDNN's graph API in the library, and turns their statuses into errors.
#include "backends/cuda/cudnn_graph.h"

namespace backends::cuda {

CudnnFunctions::CudnnFunctions(const gpu::Library& library) {
  library.find("cudnnCreate", create);
  library.find("cudnnDestroy", destroy);
  library.find("cudnnSetStream", set_stream);
  library.find("cudnnGetErrorString", error_string);
  library.find("cudnnBackendCreateDescriptor", create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", destroy_descriptor);
  library.find("cudnnBackendSetAttribute", set);
  library.find("cudnnBackendGetAttribute", get);
  library.find("cudnnBackendFinalize", finalize);
  library.find("cudnnBackendExecute", execute);
}

void CudnnFunctions::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  rt::sdk::Error error(RT_ERROR_DEVICE,
                       rt::sdk::format("cuDNN: %s failed: %s", what, error_string(status)),
                       RT_SCOPE_DEVICE);
  throw error.native("cuDNN", status);
}

}  // namespace backends::cuda
