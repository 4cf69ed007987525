# The sources that cuda and rocm share. GPU_KERNELS are for the device's compiler, and
# GPU_HOST_SOURCES for any compiler. Builds without libraries of the vendor add GPU_NO_VENDOR. Other
# builds add GPU_VENDOR and GPU_PASSES (for the device's compiler), GPU_BLAS_LT if they use cuBLASLt
# or hipBLASLt, and GPU_CONVOLUTION if they use cuDNN or MIOpen.
set(GPU_KERNELS
  attention.cu attention_fma.cu attention_mma.cu batch_norm_parts.cu elementwise.cu embedding.cu gate.cu loss.cu
  movement.cu normalisation.cu optimizer.cu pooling.cu product.cu reduction.cu row_norm.cu row_sort.cu)
set(GPU_HOST_SOURCES
  capture.cpp device_table.cpp estimate.cpp kernel_table.cpp native.cpp plugin.cpp row_layout.cpp telemetry.cpp)
list(TRANSFORM GPU_KERNELS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM GPU_HOST_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set(GPU_NO_VENDOR ${CMAKE_CURRENT_LIST_DIR}/no_vendor.cpp)
set(GPU_VENDOR ${CMAKE_CURRENT_LIST_DIR}/libraries.cpp)
set(GPU_PASSES ${CMAKE_CURRENT_LIST_DIR}/passes.cu)
set(GPU_BLAS_LT ${CMAKE_CURRENT_LIST_DIR}/blas_lt.cpp ${CMAKE_CURRENT_LIST_DIR}/gemm.cpp)
set(GPU_CONVOLUTION ${CMAKE_CURRENT_LIST_DIR}/convolution.cpp)
