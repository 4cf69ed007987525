// The example of runtime/tensor/tensor.h on the device "example". Exits with 0 if the values are
// right.
#include <cstdio>
#include <exception>
#include <vector>

#include "runtime/exec/tensor.h"  // the path in version 0.1
#include "runtime/tensor/tensor.h"

int main() {
  try {
    const runtime::Context context;
    if (context.device_count("example") != 1) return 2;
    const auto a = runtime::Tensor::from_vector<float>(context, {1, 2, 3, 4}, {2, 2}, "example:0");
    const auto b = runtime::Tensor::full(context, {2}, -5.0, "example:0");
    const auto c = relu(matmul(a, a) + b);
    return c.to_vector<float>() == std::vector<float>{2, 5, 10, 17} ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
