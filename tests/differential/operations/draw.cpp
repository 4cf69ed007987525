#include "tests/differential/operations/draw.h"

#include <algorithm>

#include "rt/operations.h"
#include "rt/sdk/operation.h"
#include "tests/differential/operations/family.h"

namespace differential {
namespace {

// Elements of the largest operand. A case with more than kMostElements takes seconds in the
// reference.
constexpr int64_t kMostElements = 200000;
constexpr int64_t kUsualElements = 20000;
// One case in eight is large enough for its loops to be divided among several threads.
constexpr int64_t kLargeCases = 8;
constexpr int64_t kFewestOfLarge = 17000;
constexpr int kTriesForLarge = 300;  // some operations have no large operand

int64_t largest_operand(const Case& c) {
  int64_t largest = 0;
  for (const auto* list : {&c.operation.inputs, &c.operation.outputs}) {
    for (const rt_tensor_desc& tensor : *list)
      largest = std::max(largest, rt::sdk::element_count(tensor));
  }
  return largest;
}

// Operations with many implementations are drawn more often.
const Family& draw_family(Random& random, const DrawOptions& options) {
  std::vector<const Family*> list;
  for (const Family& f : families()) {
    const auto& names = options.operations;
    if (!names.empty() && std::find(names.begin(), names.end(), f.operation) == names.end())
      continue;
    const bool many = f.operation == RT_OP_MATMUL || f.operation.starts_with(RT_OP_CONV2D);
    list.insert(list.end(), many ? 4 : 1, &f);
  }
  return *random.pick(list);
}

void draw_post_operations(Random& random, const Family& family, Recipe& recipe) {
  recipe.post.clear();
  if (!family.takes_post_operations()) return;
  const int64_t count = random.pick<int64_t>({0, 0, 1, 1, 2, 2, 3, 4});
  for (int64_t i = 0; i < count; ++i) {
    // The common ones are drawn as often as all activations and their gradients together.
    recipe.post.push_back(random.one_in(2) ? random.pick<std::string>({"bias", "residual", "relu"})
                                           : random.pick(post_kinds()));
  }
}

// Most cases hold ordinary numbers only, so that a special value does not hide another fault.
void draw_values(Random& random, const Case& c, Recipe& recipe) {
  recipe.seed = static_cast<uint64_t>(random.between(1, 1000));
  const auto operands = static_cast<int64_t>(c.operation.inputs.size());
  const auto forward_operands = static_cast<int64_t>(c.forward_inputs.size());
  if (operands + forward_operands == 0) return;
  if (random.one_in(3)) {
    recipe.fill = random.pick(fill_kinds());
    const auto operand = static_cast<int32_t>(random.between(-1, operands - 1));
    recipe.filled_operand = recipe.fill == "plain" ? -1 : operand;
  }
  if (!random.one_in(3)) return;
  const int64_t count = random.pick<int64_t>({1, 1, 2, 3});
  for (int64_t i = 0; i < count; ++i) {
    recipe.plants.push_back(
        {static_cast<uint32_t>(random.between(0, operands + forward_operands - 1)),
         static_cast<uint64_t>(random.between(0, random.one_in(2) ? 7 : 99999)),
         random.pick(plant_values())});
  }
}

}  // namespace

Recipe draw_recipe(const DrawOptions& options, uint64_t seed, uint64_t number) {
  Random random(seed * 1000003 + number);
  const Family& family = draw_family(random, options);
  const bool large = random.one_in(kLargeCases);
  int tries = large ? kTriesForLarge : 0;
  Recipe recipe;
  recipe.operation = family.operation;
  recipe.dtype = random.pick(options.types);
  if (!has_sixteen_bit_form(family.definition()) &&
      plugins::conformance::is_sixteen_bit(recipe.dtype))
    recipe.dtype = RT_FLOAT32;
  for (;;) {
    for (const Parameter& p : family.parameters) recipe.numbers[p.name] = p.draw(random);
    draw_post_operations(random, family, recipe);
    const std::optional<Case> c = build_case(recipe);
    if (!c) continue;
    const int64_t elements = largest_operand(*c);
    if (elements > (large ? kMostElements : kUsualElements)) continue;
    if (elements < kFewestOfLarge && tries-- > 0) continue;
    draw_values(random, *c, recipe);
    break;
  }
  recipe.threads = static_cast<int32_t>(random.pick<int64_t>({1, 1, 2, 3, 5}));
  recipe.deterministic = random.one_in(10);
  return recipe;
}

}  // namespace differential
