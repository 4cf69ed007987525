// Describes slices as text, and finds the elements that two of them share.
#include "runtime/train/checkpoint/slice.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace runtime::train {

namespace {

// The product of dims[first..last-1].
int64_t product(const graph::Dims& dims, size_t first, size_t last) {
  int64_t count = 1;
  for (size_t i = first; i < last; ++i) count *= dims[i];
  return count;
}

// The elements of the tensor-parallel slice that `s` is a range of.
int64_t elements_of_split(const Slice& s) {
  if (s.split.is_whole()) return graph::element_count(s.dims);
  const auto axis = static_cast<size_t>(s.split.axis);
  return product(s.dims, 0, axis) * s.split.blocks * s.split.length *
         product(s.dims, axis + 1, s.dims.size());
}

// Dims whose product overflows would make every later check worthless.
bool dims_are_sane(const graph::Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return false;
  }
  return true;
}

bool split_fits(const Slice& s) {
  const parallel::Split& p = s.split;
  if (p.is_whole()) return true;
  if (p.axis >= static_cast<int>(s.dims.size()) || p.blocks < 1 || p.whole < 1 || p.unit < 1)
    return false;
  int64_t length = 0;
  return !__builtin_mul_overflow(p.blocks, p.whole, &length) &&
         length == s.dims[static_cast<size_t>(p.axis)] && p.begin >= 0 && p.length >= 0 &&
         p.begin <= p.whole && p.length <= p.whole - p.begin;
}

}  // namespace

bool Slice::is_whole() const {
  return split.is_whole() && begin == 0 && end == graph::element_count(dims);
}

Slice whole_slice(graph::Dims dims) {
  const int64_t count = graph::element_count(dims);
  return {std::move(dims), {}, 0, count};
}

std::vector<ElementRun> runs_of(const Slice& slice) {
  if (slice.split.is_whole()) return {{slice.begin, 0, slice.elements()}};
  const parallel::Split& p = slice.split;
  const auto axis = static_cast<size_t>(p.axis);
  const int64_t inner = product(slice.dims, axis + 1, slice.dims.size());
  const int64_t count = p.length * inner;  // of each block, one after another in the tensor
  std::vector<ElementRun> runs;
  for (int64_t block = count == 0 ? slice.end : slice.begin / count; block * count < slice.end;
       ++block) {
    const int64_t first = std::max(slice.begin, block * count);
    const int64_t last = std::min(slice.end, (block + 1) * count);
    const int64_t in_tensor = (block * p.whole + p.begin) * inner + (first - block * count);
    if (!runs.empty() && runs.back().in_tensor + runs.back().count == in_tensor) {
      runs.back().count += last - first;
    } else {
      runs.push_back({in_tensor, first - slice.begin, last - first});
    }
  }
  return runs;
}

namespace {

// Whether a run begins in both slices where another one ends.
bool continues(const CommonRun& before, const CommonRun& run) {
  return before.in_from + before.count == run.in_from && before.in_to + before.count == run.in_to;
}

}  // namespace

std::vector<CommonRun> common_runs(const Slice& from, const Slice& to) {
  const std::vector<ElementRun> have = runs_of(from), want = runs_of(to);
  std::vector<CommonRun> common;
  for (size_t i = 0, k = 0; i < have.size() && k < want.size();) {
    const ElementRun &a = have[i], &b = want[k];
    const int64_t first = std::max(a.in_tensor, b.in_tensor);
    const int64_t a_end = a.in_tensor + a.count, b_end = b.in_tensor + b.count;
    const int64_t count = std::min(a_end, b_end) - first;
    const CommonRun run = {a.in_slice + (first - a.in_tensor), b.in_slice + (first - b.in_tensor),
                           count};
    if (count > 0 && !common.empty() && continues(common.back(), run)) {
      common.back().count += count;
    } else if (count > 0) {
      common.push_back(run);
    }
    a_end < b_end ? ++i : ++k;
  }
  return common;
}

std::string to_json(const Slice& s) {
  nlohmann::ordered_json j;
  j["dims"] = s.dims;
  if (!s.split.is_whole()) {
    const parallel::Split& p = s.split;
    j["split"] = {{"axis", p.axis}, {"blocks", p.blocks}, {"whole", p.whole},
                  {"unit", p.unit}, {"begin", p.begin},   {"length", p.length}};
  }
  j["range"] = {s.begin, s.end};
  return j.dump();
}

Slice parse_slice(const std::string& json, const std::string& where) {
  Slice s{};
  try {
    const auto j = nlohmann::json::parse(json);
    j.at("dims").get_to(s.dims);
    if (j.contains("split")) {
      const auto& split = j.at("split");
      parallel::Split& p = s.split;
      const std::initializer_list<std::pair<const char*, int64_t*>> numbers = {
          {"blocks", &p.blocks},
          {"whole", &p.whole},
          {"unit", &p.unit},
          {"begin", &p.begin},
          {"length", &p.length}};
      for (const auto& [name, to] : numbers) split.at(name).get_to(*to);
      p.axis = std::max(0, split.at("axis").get<int>());
    }
    s.begin = j.at("range").at(0).get<int64_t>();
    s.end = j.at("range").at(1).get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(where + ": the description of a slice cannot be read: " + error.what());
  }
  if (dims_are_sane(s.dims) && split_fits(s) && s.begin >= 0 && s.begin <= s.end &&
      s.end <= elements_of_split(s))
    return s;
  throw DataError(where + ": the numbers of a slice do not fit together: " + json);
}

}  // namespace runtime::train
