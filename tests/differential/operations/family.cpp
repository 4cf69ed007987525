// The list of families of operations, and what their cases have in common.
#include "tests/differential/operations/family.h"

#include <algorithm>
#include <stdexcept>

#include "rt/operations.h"

namespace differential {
namespace {

Families make_families() {
  Families families;
  add_linear(families);
  add_pooling(families);
  add_elementwise(families);
  add_reductions(families);
  add_losses(families);
  add_gated(families);
  add_normalisation(families);
  add_attention(families);
  add_movement(families);
  add_optimizers(families);
  std::sort(families.begin(), families.end(),
            [](const Family& a, const Family& b) { return a.operation < b.operation; });
  return families;
}

void expect_numbers_of(const Family& family, const Recipe& recipe) {
  for (const Parameter& p : family.parameters) {
    if (recipe.numbers.contains(p.name)) continue;
    throw std::invalid_argument("the case of " + family.operation + " lacks " + p.name + "=");
  }
  for (const auto& [name, value] : recipe.numbers) {
    const bool known = std::any_of(family.parameters.begin(), family.parameters.end(),
                                   [&](const Parameter& p) { return p.name == name; });
    if (!known) throw std::invalid_argument(family.operation + " has no number " + name);
  }
}

// The kind and function of the post-operation `name`; its operand is not set.
plugins::host::PostOp post_operation(const std::string& name) {
  if (name == "bias") return {RT_POST_BIAS, 0, -1};
  if (name == "residual") return {RT_POST_RESIDUAL_ADD, 0, -1};
  if (const int32_t f = activation_function(name)) return {RT_POST_ACTIVATION, f, -1};
  const std::string forward = name.substr(0, name.rfind("_backward"));
  return {RT_POST_ACTIVATION_BACKWARD, activation_function(forward), -1};
}

// The operands of post-operations follow the inputs of the operation itself.
void add_post_operations(Case& c, const Recipe& recipe) {
  for (const std::string& name : recipe.post) {
    plugins::host::PostOp post = post_operation(name);
    if (post.kind != RT_POST_ACTIVATION) {
      const rt_tensor_desc& y = c.operation.outputs.at(0);
      Dims dims(y.dims, y.dims + y.rank);
      if (post.kind == RT_POST_BIAS) dims = {dims.back()};
      post.operand = static_cast<int32_t>(c.operation.inputs.size());
      c.operation.inputs.push_back(plugins::host::make_tensor_desc(y.dtype, dims));
      c.inputs.push_back(Values{-1.0, 1.0, c.inputs.size() + 1});
    }
    c.operation.post_ops.push_back(post);
  }
}

}  // namespace

Parameter size(const std::string& name, int64_t largest, int64_t smallest) {
  return {name, smallest, [smallest, largest](Random& random) {
            const int64_t kind = random.between(1, 20);
            const int64_t few = std::min<int64_t>(largest, smallest + 8);
            if (kind <= 12) return random.between(smallest, few);
            if (kind <= 16 && largest >= 8) return 8 * random.between(1, largest / 8);
            return random.between(smallest, largest);
          }};
}

Parameter size_or_none(const std::string& name, int64_t largest) {
  const Parameter usual = size(name, largest);
  return {name, 0, [usual](Random& random) { return random.one_in(40) ? 0 : usual.draw(random); }};
}

Parameter choice(const std::string& name, const std::vector<int64_t>& values) {
  return {name, values.front(), [values](Random& random) { return random.pick(values); }};
}

Parameter flag(const std::string& name) { return choice(name, {0, 1}); }

std::vector<Parameter> shape_parameters() {
  return {choice("rank", {1, 0, 2, 2, 3, 4, 4}), size_or_none("d0", 40), size_or_none("d1", 40),
          size_or_none("d2", 40), size_or_none("d3", 70)};
}

Dims shape_of(const Sizes& sizes) {
  const Dims all = {sizes["d0"], sizes["d1"], sizes["d2"], sizes["d3"]};
  return Dims(all.begin(), all.begin() + sizes["rank"]);
}

std::vector<Parameter> with(std::vector<Parameter> list, const std::vector<Parameter>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

const std::vector<Family>& families() {
  static const Families all = make_families();
  return all;
}

const Family& family_of(const std::string& operation) {
  for (const Family& f : families()) {
    if (f.operation == operation) return f;
  }
  throw std::invalid_argument("there is no family for the operation \"" + operation + "\"");
}

std::optional<Case> build_case(const Recipe& recipe) {
  const Family& family = family_of(recipe.operation);
  expect_numbers_of(family, recipe);
  std::optional<Case> c = family.build(Sizes(recipe.numbers), recipe.dtype);
  if (!c) return c;
  if (!recipe.post.empty() &&
      (!family.takes_post_operations() || c->operation.outputs[0].rank == 0))
    return std::nullopt;
  add_post_operations(*c, recipe);
  if (recipe.deterministic) {
    c->operation.flags |= RT_OP_DETERMINISTIC;
    if (c->forward) c->forward->flags |= RT_OP_DETERMINISTIC;
  }
  return c;
}

}  // namespace differential
