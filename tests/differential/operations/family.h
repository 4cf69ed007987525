// A family declares one operation once: the numbers that its shapes and attributes are made from,
// how each is drawn from a seed, and how a case of plugins/conformance is built from them.
// Everything else (special values, post-operations, comparison, shrinking) works on any family.
#ifndef TESTS_DIFFERENTIAL_OPERATIONS_FAMILY_H_
#define TESTS_DIFFERENTIAL_OPERATIONS_FAMILY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plugins/conformance/builder.h"
#include "tests/differential/operations/random.h"
#include "tests/differential/operations/recipe.h"

namespace differential {

using plugins::conformance::Builder;
using plugins::conformance::Case;
using plugins::conformance::Dims;
using plugins::conformance::Values;

// One number of a recipe.
struct Parameter {
  std::string name;
  int64_t simplest;  // what the shrinker tries first
  std::function<int64_t(Random&)> draw;
};

// A dimension: mostly small, sometimes a multiple of eight, rarely up to `largest`.
Parameter size(const std::string& name, int64_t largest, int64_t smallest = 1);
// As size(), and in one of 40 cases 0: nothing to compute.
Parameter size_or_none(const std::string& name, int64_t largest);
Parameter choice(const std::string& name,
                 const std::vector<int64_t>& values);  // the first: simplest
Parameter flag(const std::string& name);               // 0 or 1

// The numbers of one recipe while a case is built from them.
class Sizes {
 public:
  explicit Sizes(const Numbers& numbers) : numbers_(numbers) {}
  int64_t operator[](const char* name) const { return numbers_.at(name); }

 private:
  const Numbers& numbers_;
};

// A tensor of any form: `rank` dimensions d0, d1, ..., the outermost first; any may be 0.
std::vector<Parameter> shape_parameters();
Dims shape_of(const Sizes& sizes);
std::vector<Parameter> with(std::vector<Parameter> list, const std::vector<Parameter>& more);

// How the result is compared with the reference in float64.
enum class Comparison {
  kNorm,    // by norm, within what the device claims
  kExact,   // element by element: nothing is rounded
  kOwnType  // as kExact, with a reference in the case's own types: conversions
};

// What a NaN or an infinity in an operand may do to the result.
enum class NotFinite {
  kSame,  // NaN where the reference has NaN, the infinity that it has
  kAny,   // not finite where the reference is not: which of them depends on the order of factors
  kMaySpread  // as kAny, and elsewhere, too: the transforms of Winograd mix a tile, a causal mask
              // may be a product with zero
};

struct Family {
  std::string operation;
  std::vector<Parameter> parameters;
  // nullopt: these numbers make no valid operation, or one that takes too long in the reference.
  std::function<std::optional<Case>(const Sizes&, rt_dtype)> build = nullptr;
  bool takes_post_operations = false;
  bool has_sixteen_bit_form = true;
  Comparison comparison = Comparison::kNorm;
  // The largest magnitude for which every intermediate result stays within float32.
  double huge = 1e30;
  // Inputs (bit i: input i) that are taken as exact: a last bit that changes in one of these is not
  // an excuse for a result that differs. So for what a normalisation subtracts its mean from.
  uint32_t exact_inputs = 0;
  NotFinite not_finite = NotFinite::kSame;
  // The norm of the largest terms of the outputs, from the inputs: where they cancel, a few last
  // bits of them are left. nullptr: those that `inputs` disturbed show are all there are.
  std::function<double(const Sizes&, const std::vector<std::vector<double>>& inputs)> terms =
      nullptr;
  // An output is a sum of products of one element of each input: the magnitudes of its terms are
  // what the inputs without their signs give.
  bool sums_products = false;
  // Inputs that never hold a special value, because they count something.
  uint32_t counters = 0;
  // Inputs that the contract wants finite, with these numbers.
  std::function<uint32_t(const Sizes&)> finite_inputs = [](const Sizes&) { return 0u; };
};

// Every family, sorted by the name of its operation; and one of them, or std::invalid_argument.
const std::vector<Family>& families();
const Family& family_of(const std::string& operation);

// The case of a recipe, with its post-operations; nullopt if it is not valid. Throws
// std::invalid_argument if the recipe lacks a number of its family, or has one too many.
std::optional<Case> build_case(const Recipe& recipe);

// The lists, each in the file of that name.
using Families = std::vector<Family>;
void add_linear(Families& families);         // families_linear.cpp
void add_pooling(Families& families);        // families_linear.cpp
void add_elementwise(Families& families);    // families_elementwise.cpp
void add_reductions(Families& families);     // families_elementwise.cpp
void add_losses(Families& families);         // families_losses.cpp
void add_normalisation(Families& families);  // families_normalisation.cpp
void add_attention(Families& families);      // families_normalisation.cpp
void add_movement(Families& families);       // families_movement.cpp
void add_optimizers(Families& families);     // families_optimizers.cpp

}  // namespace differential

#endif  // TESTS_DIFFERENTIAL_OPERATIONS_FAMILY_H_
