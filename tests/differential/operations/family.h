// A family declares one operation once: the parameters that determine its shapes and attributes,
// how each is drawn from a seed, and how a case of plugins/conformance is built from them.
// Everything else (special values, post-operations, comparison, shrinking) works on any family.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_FAMILY_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_FAMILY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugins/conformance/builder.h"
#include "rt/sdk/definitions.h"
#include "tests/differential/operations/random.h"
#include "tests/differential/operations/recipe.h"

namespace differential {

using plugins::conformance::Builder;
using plugins::conformance::Case;
using plugins::conformance::Dims;
using plugins::conformance::Values;

// One parameter of a recipe.
struct Parameter {
  std::string name;
  int64_t simplest;  // the value that the shrinker tries first
  std::function<int64_t(Random&)> draw;
};

// A dimension: mostly small, sometimes a multiple of eight, rarely up to `largest`.
Parameter size(const std::string& name, int64_t largest, int64_t smallest = 1);
// Like size(), but 0 in one of 40 cases, which leaves nothing to compute.
Parameter size_or_none(const std::string& name, int64_t largest);
Parameter choice(const std::string& name,
                 const std::vector<int64_t>& values);  // the first is the simplest
Parameter flag(const std::string& name);               // 0 or 1

// The parameters of one recipe, while a case is built from them.
class Sizes {
 public:
  explicit Sizes(const Numbers& numbers) : numbers_(numbers) {}
  int64_t operator[](const char* name) const { return numbers_.at(name); }

 private:
  const Numbers& numbers_;
};

// The parameters of a tensor of any shape: `rank` and the dimensions d0, d1, ..., the outermost
// first; any dimension may be 0.
std::vector<Parameter> shape_parameters();
Dims shape_of(const Sizes& sizes);
std::vector<Parameter> with(std::vector<Parameter> list, const std::vector<Parameter>& more);

// How a result is compared with the reference in float64.
enum class Comparison {
  kNorm,    // by norm, within what the device claims
  kExact,   // element by element: nothing is rounded
  kOwnType  // like kExact, with a reference in the case's own types, for conversions
};

// The effect that a NaN or an infinity in an operand may have on the result.
enum class NotFinite {
  kSame,      // NaN where the reference has NaN, and the same infinity where it has one
  kAny,       // NaN or infinity where the reference has either: which one depends on the order of
              // factors
  kMaySpread  // like kAny, and other elements may become NaN or infinite too: Winograd transforms
              // mix a tile, and a causal mask may be a product with zero
};

struct Family {
  std::string operation;
  std::vector<Parameter> parameters;
  // Returns nullopt if the parameters make no valid operation, or one that takes too long in the
  // reference.
  std::function<std::optional<Case>(const Sizes&, rt_dtype)> build = nullptr;
  Comparison comparison = Comparison::kNorm;
  // The largest magnitude for which every intermediate result stays within float32.
  double huge = 1e30;
  NotFinite not_finite = NotFinite::kSame;
  // Computes the norm of the largest terms of the outputs from the inputs; where these terms
  // cancel, rounding errors of a few last bits of them remain. nullptr if disturbed `inputs` show
  // all of the rounding.
  std::function<double(const Sizes&, const std::vector<std::vector<double>>& inputs)> terms =
      nullptr;
  // An output is a sum of products of one element of each input. Then the operation on the
  // magnitudes of the inputs gives the magnitudes of its terms.
  bool sums_products = false;
  // The result depends on which of two numbers is the larger one that the forward operation
  // computes. Operands then have so few digits that these numbers are exact, and the harness
  // disturbs the forward operation's operands too.
  bool chooses_results = false;
  // Bit i marks input i as a count, which never holds a special value.
  uint32_t counters = 0;
  // Bit i marks input i as one whose last element is a count, which stays as it was drawn.
  uint32_t ends_with_count = 0;
  // The operands that have to be finite, for these parameters. Bit i: operand i as Plant counts
  // them, those of the forward operation behind those of the backward one.
  std::function<uint32_t(const Sizes&)> finite_inputs = [](const Sizes&) { return 0u; };

  // What the contract says about the operation.
  const rt::sdk::Definition& definition() const { return *rt::sdk::find_definition(operation); }
  bool takes_post_operations() const {
    return definition().has(rt::sdk::Definition::kPostOperations);
  }
};

// families() returns every family, sorted by the name of its operation; family_of() returns one of
// them or throws std::invalid_argument.
const std::vector<Family>& families();
const Family& family_of(const std::string& operation);

// Builds the case of a recipe, with its post-operations; nullopt if the case is not valid. Throws
// std::invalid_argument if the recipe lacks a parameter of its family or has an unknown one.
std::optional<Case> build_case(const Recipe& recipe);

// Each function appends the families of the file named behind it.
using Families = std::vector<Family>;
void add_linear(Families& families);         // families_linear.cpp
void add_pooling(Families& families);        // families_linear.cpp
void add_elementwise(Families& families);    // families_elementwise.cpp
void add_gated(Families& families);          // families_gate.cpp
void add_reductions(Families& families);     // families_elementwise.cpp
void add_losses(Families& families);         // families_losses.cpp
void add_normalisation(Families& families);  // families_normalisation.cpp
void add_attention(Families& families);      // families_attention.cpp
void add_movement(Families& families);       // families_movement.cpp
void add_optimizers(Families& families);     // families_optimizers.cpp

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_FAMILY_H_
