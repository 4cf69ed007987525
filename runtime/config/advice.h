// Advice about configurations that are valid, but hardly what was meant.
#ifndef RUNTIME_CONFIG_ADVICE_H_
#define RUNTIME_CONFIG_ADVICE_H_

#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace runtime::config {

// The function returns a sentence for each thing that the user should know before training begins,
// with what was found, where, and a remedy: a last layer whose sigmoid or softmax goes into a cross
// entropy, which expects logits.
std::vector<std::string> advice(const Config& config);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_ADVICE_H_
