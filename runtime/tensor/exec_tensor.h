// Installed as runtime/exec/tensor.h, where programs written for version 0.1 look for it.
#ifndef RUNTIME_TENSOR_EXEC_TENSOR_H_
#define RUNTIME_TENSOR_EXEC_TENSOR_H_

#include "runtime/tensor/tensor.h"  // IWYU pragma: export

#endif  // RUNTIME_TENSOR_EXEC_TENSOR_H_
