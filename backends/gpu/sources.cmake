# The sources that cuda and rocm share: GPU_KERNELS for the device's compiler, GPU_HOST_SOURCES for any, GPU_NO_VENDOR for
# builds without libraries of the vendor, else GPU_VENDOR and GPU_PASSES (for the device's compiler), GPU_BLAS_LT where
# cuBLASLt or hipBLASLt is one of them, and GPU_CONVOLUTION where cuDNN or MIOpen is.
set(GPU_KERNELS
  attention.cu elementwise.cu loss.cu movement.cu normalisation.cu optimizer.cu pooling.cu product.cu reduction.cu)
set(GPU_HOST_SOURCES capture.cpp device_table.cpp kernel_table.cpp plugin.cpp telemetry.cpp)
list(TRANSFORM GPU_KERNELS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM GPU_HOST_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set(GPU_NO_VENDOR ${CMAKE_CURRENT_LIST_DIR}/no_vendor.cpp)
set(GPU_VENDOR ${CMAKE_CURRENT_LIST_DIR}/libraries.cpp)
set(GPU_PASSES ${CMAKE_CURRENT_LIST_DIR}/passes.cu)
set(GPU_BLAS_LT ${CMAKE_CURRENT_LIST_DIR}/blas_lt.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm.cpp)
set(GPU_CONVOLUTION ${CMAKE_CURRENT_LIST_DIR}/convolution.cpp)
