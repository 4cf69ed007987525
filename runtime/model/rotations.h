// The angles of rotary positions.
#ifndef RUNTIME_MODEL_ROTATIONS_H_
#define RUNTIME_MODEL_ROTATIONS_H_

#include <cstdint>
#include <vector>

namespace runtime::model {

// How the frequencies are changed for texts that are longer than those of the first training.
enum class RotationScaling {
  kNone,
  kLinear,  // all are divided by `factor`
  // Llama 3: those of waves longer than original_length / low are divided, those of waves shorter
  // than original_length / high stay, and between them there is a ramp.
  kLlama3,
  // YaRN (Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023):
  // a ramp between the pairs that turn `high` and `low` times in original_length; turns are
  // multiplied by `attention`.
  kYarn,
};

// Pair k of `columns` features turns by the place times base^(-2k / columns), as scaled.
// Equivalent to: rope_parameters of a configuration of Hugging Face's transformers.
struct Rotations {
  double base = 10000;
  int64_t columns = 0;  // features of a head that turn, from the first on; 0: all of them
  RotationScaling scaling = RotationScaling::kNone;
  double factor = 1;
  int64_t original_length = 0;  // tokens of the first training
  double low = 0, high = 0;     // 0: as published, 1 and 4 for kLlama3, 1 and 32 for kYarn
  double attention = 0;         // of kYarn; 0: 0.1 ln(factor) + 1
  bool operator==(const Rotations&) const = default;
};

// The angles by which the pairs of `columns` features turn from one place to the next, in radians.
std::vector<double> frequencies(const Rotations& rotations, int64_t columns);

// For each of `places` places, the cosines of the angles of all pairs, and then the sines.
std::vector<double> turns(const Rotations& rotations, int64_t columns, int64_t places);

// For each of `places` places and each of `columns` features, the sine of its angle in an even
// feature and the cosine in an odd one, see SinusoidalPosition.
std::vector<double> sinusoids(double base, int64_t columns, int64_t places);

}  // namespace runtime::model

#endif  // RUNTIME_MODEL_ROTATIONS_H_
