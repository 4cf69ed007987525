// Texts for messages: names of the enum constants of the C interface (plugins/include), and
// durations.
#ifndef PLUGINS_HOST_TEXT_H_
#define PLUGINS_HOST_TEXT_H_

#include <chrono>
#include <string>

#include "rt/communicator.h"

namespace plugins::host {

// Returns "all_reduce" for RT_ALL_REDUCE, and "collective 77" for an unknown number.
std::string collective_name(int32_t kind);
// Returns "sum" for RT_SUM, and "reduction 77" for an unknown number.
std::string reduction_name(int32_t reduction);
// Returns "float32" for RT_FLOAT32, and "dtype 77" for an unknown number.
std::string dtype_name(rt_dtype dtype);

// Returns seconds with at most three significant digits: "2.5 s".
std::string seconds_text(std::chrono::duration<double> time);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_TEXT_H_
