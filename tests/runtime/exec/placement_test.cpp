// Checks that no value is overwritten while it is needed, and that memory is shared in place.
#include "runtime/exec/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace runtime::exec {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

struct Case {
  Graph graph;
  std::vector<NodeNeeds> needs;
};

ValueId add(Graph& g, ValueKind kind, uint64_t bytes) {
  Value v;
  v.kind = kind;
  v.dtype = RT_UINT8;
  v.dims = {static_cast<int64_t>(bytes)};
  v.name = "v" + std::to_string(g.values.size());
  return g.add_value(std::move(v));
}

// A random program with values of few different sizes, so that they often share memory, with views,
// saved data, and outputs that no node reads.
Case random_case(std::mt19937& random) {
  Case c;
  Graph& g = c.graph;
  std::vector<ValueId> readable = {add(g, ValueKind::kInput, 64),
                                   add(g, ValueKind::kParameter, 64)};
  std::vector<ValueId> saved;
  const auto size = [&] { return uint64_t{64} << random() % 2; };
  const int nodes = 1 + static_cast<int>(random() % 25);
  for (int i = 0; i < nodes; ++i) {
    Node n;
    n.op = "op";
    for (size_t k = 1 + random() % 3; k-- > 0;)
      n.inputs.push_back(readable[random() % readable.size()]);
    NodeNeeds needs;
    for (size_t k = 1 + random() % 3; k-- > 0;) {
      const uint32_t kind = random() % 12;
      n.outputs.push_back(add(g,
                              kind == 0   ? ValueKind::kOutput
                              : kind == 1 ? ValueKind::kState
                                          : ValueKind::kTemporary,
                              size()));
      needs.in_place.push_back(random() % 2 ? random() & 7 : 0);
    }
    if (random() % 5 == 0) {
      n.saved = add(g, ValueKind::kTemporary, size());
      saved.push_back(n.saved);
    } else if (!saved.empty() && random() % 3 == 0) {
      n.op = "op_backward";
      n.saved = saved[random() % saved.size()];
    }
    if (random() % 4 == 0) needs.workspace_bytes = size();
    for (ValueId v : n.outputs) {
      if (random() % 5 == 0) continue;  // a dead value
      readable.push_back(random() % 5 == 0 ? g.reshape(v, {8, g.value(v).dims[0] / 8}) : v);
    }
    g.nodes.push_back(std::move(n));
    c.needs.push_back(std::move(needs));
  }
  return c;
}

// Simulates a run on bytes: every node checks that its inputs still hold what was written to them,
// then writes its outputs.
class Machine {
 public:
  Machine(const Case& c, const Placement& p) : c_(c), p_(p), memory_(p.arena_bytes, kNone) {}

  std::string run() {
    for (const Value& v : c_.graph.values) {
      if (v.kind == ValueKind::kInput) write(id(v));
    }
    for (size_t i = 0; i < c_.graph.nodes.size(); ++i) {
      const std::string fault = step(i);
      if (!fault.empty()) return "node " + std::to_string(i) + ": " + fault;
    }
    for (const Value& v : c_.graph.values) {
      if (v.kind == ValueKind::kOutput && !holds(id(v))) return v.name + " is lost at the end";
    }
    return "";
  }

 private:
  ValueId id(const Value& v) const { return static_cast<ValueId>(&v - c_.graph.values.data()); }

  std::string step(size_t i) {
    const Node& n = c_.graph.nodes[i];
    for (ValueId v : n.inputs) {
      if (!holds(v)) return c_.graph.value(v).name + " was overwritten";
    }
    if (n.is_backward() && !holds(n.saved)) return "saved data was overwritten";
    // The node fills its workspace and its outputs; inputs that no output may share must stay
    // unchanged.
    if (p_.workspace_offsets[i] != Placement::kNowhere)
      fill(p_.workspace_offsets[i], c_.needs[i].workspace_bytes, kScratch);
    else if (c_.needs[i].workspace_bytes > 0)
      return "no workspace";
    for (ValueId v : n.outputs) write(v);
    if (n.saved != kNone && !n.is_backward()) write(n.saved);
    for (ValueId v : n.outputs) {
      if (!holds(v)) return "output " + c_.graph.value(v).name + " overlaps another operand";
    }
    if (n.saved != kNone && !holds(n.saved)) return "saved data overlaps an output";
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (!holds(n.inputs[k]) && !shared_in_place(i, k))
        return "input " + c_.graph.value(n.inputs[k]).name + " is overwritten while it is read";
    }
    return "";
  }

  // Whether an output that may be in place lies exactly where this input does, and no other operand
  // reads the input.
  bool shared_in_place(size_t i, size_t k) const {
    const Node& n = c_.graph.nodes[i];
    const ValueId s = c_.graph.storage(n.inputs[k]);
    for (size_t other = 0; other < n.inputs.size(); ++other) {
      if (other != k && c_.graph.storage(n.inputs[other]) == s) return false;
    }
    for (size_t j = 0; j < n.outputs.size(); ++j) {
      const ValueId o = c_.graph.storage(n.outputs[j]);
      if ((c_.needs[i].in_place[j] >> k & 1) && p_.value_offsets[o] == p_.value_offsets[s] &&
          c_.graph.value(o).bytes == c_.graph.value(s).bytes)
        return true;
    }
    return false;
  }

  bool placed(ValueId s) const { return !is_persistent(c_.graph.value(s).kind); }

  void fill(uint64_t offset, uint64_t bytes, ValueId owner) {
    std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(offset), bytes, owner);
  }
  void write(ValueId v) {
    const ValueId s = c_.graph.storage(v);
    if (placed(s) && p_.value_offsets[s] != Placement::kNowhere)
      fill(p_.value_offsets[s], c_.graph.value(s).bytes, s);
  }
  bool holds(ValueId v) const {
    const ValueId s = c_.graph.storage(v);
    if (!placed(s)) return true;
    if (p_.value_offsets[s] == Placement::kNowhere) return false;
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(p_.value_offsets[s]);
    return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(c_.graph.value(s).bytes),
                       [&](ValueId owner) { return owner == s; });
  }

  static constexpr ValueId kScratch = -2;
  const Case& c_;
  const Placement& p_;
  std::vector<ValueId> memory_;  // for each byte, the value that it holds
};

TEST(Placement, NothingThatIsStillNeededIsOverwritten) {
  std::mt19937 random(1);
  int shared = 0;
  for (int round = 0; round < 3000; ++round) {
    const Case c = random_case(random);
    const Placement p = place_values(c.graph, c.needs, 16);
    // Inputs that no node reads need no place.
    Case checked = c;
    for (size_t v = 0; v < c.graph.values.size(); ++v) {
      if (c.graph.values[v].kind == ValueKind::kInput && p.value_offsets[v] == Placement::kNowhere)
        checked.graph.values[v].kind = ValueKind::kParameter;
    }
    ASSERT_EQ(Machine(checked, p).run(), "") << "round " << round;
    for (const PlacedBuffer& b : p.buffers) shared += b.values.size() > 1;
  }
  EXPECT_GT(shared, 1000) << "in place happens too rarely to be tested";
}

// x -> a -> b -> c, all in place, share one buffer.
TEST(Placement, AChainInPlaceTakesOneBuffer) {
  Case c;
  ValueId v = add(c.graph, ValueKind::kTemporary, 256);
  c.graph.nodes.push_back({.op = "first",
                           .layer = "",
                           .inputs = {},
                           .outputs = {v},
                           .attributes = {},
                           .post_ops = {},
                           .implementation = ""});
  c.needs.push_back({0, {0}});
  for (int i = 0; i < 3; ++i) {
    const ValueId next = add(c.graph, ValueKind::kTemporary, 256);
    c.graph.nodes.push_back({.op = "next",
                             .layer = "",
                             .inputs = {v},
                             .outputs = {next},
                             .attributes = {},
                             .post_ops = {},
                             .implementation = ""});
    c.needs.push_back({0, {1}});
    v = next;
  }
  EXPECT_EQ(place_values(c.graph, c.needs, 64).arena_bytes, 256u);
  for (NodeNeeds& n : c.needs) n.in_place = {0};
  EXPECT_EQ(place_values(c.graph, c.needs, 64).arena_bytes, 512u);
}

// The first element of the view would overwrite another element of the input.
TEST(Placement, AViewOfAPartIsNotWrittenInPlace) {
  Case c;
  const ValueId x = add(c.graph, ValueKind::kTemporary, 256);
  const ValueId y = add(c.graph, ValueKind::kTemporary, 256);
  Value part;
  part.dtype = RT_UINT8;
  part.dims = {128};
  part.base = y;
  part.offset = 128;
  const ValueId view = c.graph.add_value(part);
  for (const auto& [from, to] : {std::pair{kNone, x}, std::pair{x, view}, std::pair{y, kNone}}) {
    Node n;
    n.op = "op";
    if (from != kNone) n.inputs = {from};
    if (to != kNone) n.outputs = {to};
    c.graph.nodes.push_back(n);
    c.needs.push_back({0, {1}});
  }
  EXPECT_EQ(place_values(c.graph, c.needs, 64).arena_bytes, 512u);
}

}  // namespace
}  // namespace runtime::exec
