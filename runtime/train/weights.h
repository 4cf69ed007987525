// Converts parameters between device memory and files: initial values, PyTorch's layouts.
#ifndef RUNTIME_TRAIN_WEIGHTS_H_
#define RUNTIME_TRAIN_WEIGHTS_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/data/safetensors.h"
#include "runtime/model/network.h"

namespace runtime::train {

// In the metadata of weights of a language model of characters: those characters, in the order of
// their ids.
inline constexpr const char* kCharacters = "characters";

// In the metadata of weights: how the data were prepared (data/preparation.h).
inline constexpr const char* kPreparation = "preparation";

// The names of the inits that something is written for.
std::vector<std::string> written_inits();

// Draws the initial values of a parameter in canonical order, as `bytes` of the type. They are
// drawn with Philox from the seed, the parameter's name and the place in the file alone, so they
// depend on no backend, thread or rank. `bytes` can be the same for one parameter after the other:
// fresh memory takes as long as the numbers.
void draw_initial_values(const model::Parameter& parameter, uint64_t seed, rt_dtype dtype,
                         int threads, std::vector<std::byte>& bytes);

// Converts canonical order to file order and back; `element` is the size of one number in bytes.
std::vector<std::byte> to_file_order(const model::Parameter& parameter,
                                     std::vector<std::byte> canonical, uint64_t element);
std::vector<std::byte> from_file_order(const model::Parameter& parameter,
                                       std::vector<std::byte> file, uint64_t element);

// Checks that the file has exactly these parameters, with these shapes, in a floating type; names
// that match `except` may be missing or different on either side. Throws DataError that lists
// missing and unexpected tensors and differing shapes, ConfigurationError for a pattern that
// matches nothing.
void check_weights(const data::FileView& file, const std::vector<model::Parameter>& parameters,
                   const std::string& path, const std::vector<std::string>& except = {});

// The parameters that match one of the patterns and have more rows than the file, for vocabularies
// to which tokens were added, with the rows of each; `file` then says that it has them. Throws
// ConfigurationError for a pattern that matches no parameter. Equivalent to:
// resize_token_embeddings() of transformers, together with append_rows().
std::map<std::string, int64_t> rows_to_append(data::FileView& file,
                                              const std::vector<model::Parameter>& parameters,
                                              const std::vector<std::string>& patterns);
// Appends rows until there are `rows`; a new one is the mean of the old ones.
void append_rows(data::HostTensor& tensor, int64_t rows);

// Whether these bytes of numbers contain no NaN and no infinity.
bool all_finite(rt_dtype dtype, const std::byte* numbers, uint64_t bytes);
// The name of the first tensor that contains a NaN or an infinity; "" if there is none.
std::string first_not_finite(const data::TensorFile& file);

// Whether `dtype` is float16, bfloat16, float32 or float64.
bool is_floating(rt_dtype dtype);
// The tensor's numbers as bytes of another floating type.
std::vector<std::byte> converted(const data::HostTensor& tensor, rt_dtype dtype);
// The numbers of a tensor of any type.
std::vector<double> numbers_of(const data::HostTensor& tensor);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_WEIGHTS_H_
