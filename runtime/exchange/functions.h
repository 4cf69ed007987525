// The names of activation functions in configurations of transformers.
#ifndef RUNTIME_EXCHANGE_FUNCTIONS_H_
#define RUNTIME_EXCHANGE_FUNCTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "runtime/exchange/hf_json.h"

namespace runtime::exchange {

// The function that a key names, as layers name it. Throws DataError unless it is one of `ours`.
std::string read_function(const JsonObject& config, const std::string& key,
                          const std::string& fallback, const std::vector<std::string_view>& ours);

// The name that transformers has for a function of a layer.
std::string their_function(const std::string& ours);

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_FUNCTIONS_H_
