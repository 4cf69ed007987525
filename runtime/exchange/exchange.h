// Reads models of Hugging Face's transformers, and writes them.
#ifndef RUNTIME_EXCHANGE_EXCHANGE_H_
#define RUNTIME_EXCHANGE_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "runtime/config/config.h"

namespace runtime::exchange {

// What was written.
struct Exchanged {
  std::string family;      // model type, as config.json names it
  std::string loader;      // the class of transformers that loads it
  int64_t parameters = 0;  // tensors of weights
  int64_t numbers = 0;     // in them
  bool tokenizer = false;  // tokenizer.json was copied
  bool vectors = false;    // the model makes vectors of texts
};

// Writes the model of `folder` (config.json, safetensors, tokenizer.json) as `output`, a new
// folder: config.toml, weights.safetensors with the types of the files, tokenizer.json and the
// files that transformers keeps beside it. Weights go from file to file, a block at a time. Throws
// DataError for files that are missing, broken or do not fit each other, and for a model that
// cannot be expressed; `output` then holds nothing.
Exchanged import_model(const std::string& folder, const std::string& output);

// Writes the model of a configuration with the weights of a file as `output`, a new folder that
// from_pretrained() of its class loads: config.json and model.safetensors, and the
// tokenizer of the configuration if it is a tokenizer.json. Throws ConfigurationError for a model
// that is of no family, and DataError for weights that do not fit.
Exchanged export_model(const config::Config& config, const std::string& weights,
                       const std::string& output);

}  // namespace runtime::exchange

#endif  // RUNTIME_EXCHANGE_EXCHANGE_H_
