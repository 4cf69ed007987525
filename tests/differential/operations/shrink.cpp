// Makes a failing case smaller as long as it fails.
#include "tests/differential/operations/shrink.h"

#include "tests/differential/operations/family.h"

namespace differential {
namespace {

class Shrinker {
 public:
  Shrinker(Recipe recipe, const std::function<bool(const Recipe&)>& fails, int most_trials)
      : recipe_(std::move(recipe)), fails_(fails), trials_left_(most_trials) {}

  Recipe run() {
    while (trials_left_ > 0) {
      const Recipe before = recipe_;
      shrink_settings();
      shrink_list(&Recipe::post);
      shrink_list(&Recipe::plants);
      shrink_numbers();
      shrink_plants();
      if (recipe_ == before) break;
    }
    return recipe_;
  }

 private:
  // Makes `candidate` the current recipe if it differs from it and still fails.
  bool accept(const Recipe& candidate) {
    if (candidate == recipe_ || trials_left_ <= 0 || !build_case(candidate)) return false;
    --trials_left_;
    if (!fails_(candidate)) return false;
    recipe_ = candidate;
    return true;
  }

  template <typename Change>
  bool try_with(Change change) {
    Recipe candidate = recipe_;
    change(candidate);
    return accept(candidate);
  }

  void shrink_settings() {
    try_with([](Recipe& r) { r.threads = 1; });
    try_with([](Recipe& r) { r.deterministic = false; });
    try_with([](Recipe& r) { r.fill = "plain", r.filled_operand = -1; });
    try_with([](Recipe& r) { r.filled_operand = -1; });
    try_with([](Recipe& r) { r.seed = 1; });
  }

  // Tries to remove the whole list, then one element after the other.
  template <typename List>
  void shrink_list(List Recipe::*list) {
    try_with([&](Recipe& r) { (r.*list).clear(); });
    for (size_t i = (recipe_.*list).size(); i-- > 0;) {
      try_with([&](Recipe& r) { (r.*list).erase((r.*list).begin() + static_cast<int64_t>(i)); });
    }
  }

  void shrink_plants() {
    for (size_t i = 0; i < recipe_.plants.size(); ++i) {
      while (try_with([&](Recipe& r) { r.plants[i].index /= 2; })) continue;
    }
  }

  void shrink_numbers() {
    for (const Parameter& p : family_of(recipe_.operation).parameters) {
      const int64_t simplest = p.simplest;
      if (recipe_.numbers[p.name] == simplest) continue;
      if (set_number(p.name, simplest)) continue;
      if (simplest == 0 && set_number(p.name, 1)) continue;
      while (recipe_.numbers[p.name] > simplest + 1 &&
             set_number(p.name, (recipe_.numbers[p.name] + simplest) / 2))
        continue;
      while (recipe_.numbers[p.name] > simplest && set_number(p.name, recipe_.numbers[p.name] - 1))
        continue;
    }
  }

  bool set_number(const std::string& name, int64_t value) {
    return try_with([&](Recipe& r) { r.numbers[name] = value; });
  }

  Recipe recipe_;
  const std::function<bool(const Recipe&)>& fails_;
  int trials_left_;
};

}  // namespace

Recipe shrink(const Recipe& recipe, const std::function<bool(const Recipe&)>& fails,
              int most_trials) {
  return Shrinker(recipe, fails, most_trials).run();
}

}  // namespace differential
