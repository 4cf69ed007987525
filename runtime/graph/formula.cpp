#include "runtime/graph/formula.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "runtime/error.h"
#include "runtime/graph/compositions.h"
#include "runtime/graph/element_copies.h"
#include "runtime/graph/scanner.h"

namespace runtime::graph {

namespace {

// The dims of two operands of a broadcasting operation together.
Dims broadcast(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()), 1);
  for (const Dims* dims : {&a, &b}) {
    for (size_t i = 0; i < dims->size(); ++i) {
      int64_t& d = result[result.size() - 1 - i];
      d = std::max(d, (*dims)[dims->size() - 1 - i]);
    }
  }
  return result;
}

// A loop variable of a statement that copies elements, and the number of its values.
struct Range {
  std::string name;
  int64_t count;
};

// Expands one formula. Parsing and expansion are one walk over the text; while `live_` is false,
// the walk only parses.
class Expansion {
 public:
  Expansion(Build& build, const Formula& formula, Terms known)
      : build_(build),
        graph_(build.graph()),
        formula_(formula),
        terms_(std::move(known)),
        scan_(formula.op, formula.text) {}

  Terms run(const Node& node) {
    for (const Attribute& a : node.attributes) {
      std::visit([&](auto v) { terms_[a.name] = {static_cast<double>(v)}; }, a.value);
    }
    attributes_ = node.attributes;
    const auto first = static_cast<ValueId>(graph_.values.size());
    bind(node.inputs, &node.outputs);
    statements();
    for (const Output& output : outputs_) write(output, node, first);
    return std::move(terms_);
  }

  // The formula as a function; returns its first output.
  Term call(const std::vector<ValueId>& arguments, const std::vector<Attribute>& attributes) {
    attributes_ = attributes;
    bind(arguments, nullptr);
    statements();
    return term(result_);
  }

 private:
  struct Output {
    std::string name;
    ValueId value;
  };

  [[noreturn]] void fail(const std::string& what) const { scan_.fail(what); }
  const Dims& dims(const Term& t) const { return graph_.value(t.value).dims; }

  // ---- signature

  // Without `outputs` the formula is a function, whose outputs are what it assigns.
  void bind(const std::vector<ValueId>& inputs, const std::vector<ValueId>* outputs) {
    Scanner scan(formula_.op, formula_.signature);
    size_t index = 0;
    while (!scan.accept("->")) {
      if (scan.accept("{")) {
        defaults(scan);
        continue;
      }
      if (scan.accept("with ")) {
        while (scan.is_letter()) expect_known(scan.identifier());
        continue;
      }
      const Operand o = operand(scan, inputs, index++);
      if (o.value == kNone && !o.optional) fail("needs operand '" + o.name + "'");
      if (o.value == kNone) continue;
      terms_[o.name] = {0, o.shaped ? graph_.reshape(o.value, o.dims) : o.value};
    }
    if (index < inputs.size()) fail("has too few inputs");
    for (index = 0; !scan.at_end();) {
      const Operand o = operand(scan, outputs == nullptr ? inputs : *outputs,
                                outputs == nullptr ? SIZE_MAX : index++);
      if (result_.empty()) result_ = o.name;
      if (outputs == nullptr) continue;
      if (o.value == kNone) absent_.insert(o.name);
      if (o.value == kNone) continue;
      outputs_.push_back({o.name, o.value});
      terms_.try_emplace(o.name, Term{0, o.value});  // for its type and dims, until it is assigned
      shapes_[o.name] = o.dims;
    }
  }

  void defaults(Scanner& scan) {
    while (!scan.accept("}")) {
      const std::string name(scan.identifier());
      const double value = scan.accept("=") ? scan.number() : 0;
      terms_.emplace(name, Term{value});
    }
  }

  void expect_known(const std::string& name) const {
    if (!terms_.contains(name)) fail("needs '" + name + "' of the forward operation");
  }

  struct Operand {
    std::string name;
    ValueId value = kNone;  // kNone: absent
    bool shaped = false, optional = false;
    Dims dims = {};  // as the formula sees it, where it is shaped
  };

  Operand operand(Scanner& scan, const std::vector<ValueId>& values, size_t index) {
    Operand o{scan.identifier(), index < values.size() ? values[index] : kNone};
    const Dims actual = o.value == kNone ? Dims{} : graph_.value(o.value).dims;
    o.shaped = scan.accept("[");
    if (o.shaped) o.dims = view_dims(scan, o.value == kNone ? nullptr : &actual);
    o.optional = scan.accept("?");
    const rt_dtype dtype = o.value == kNone ? 0 : graph_.value(o.value).dtype;
    if (dtype_ == 0 && (dtype == RT_FLOAT32 || dtype == RT_FLOAT64)) dtype_ = dtype;
    return o;
  }

  // Reads "N,S*,1]" and binds its names to `actual`, which is null for an absent operand.
  Dims view_dims(Scanner& scan, const Dims* actual) {
    struct Item {
      std::string name;  // empty: a number
      size_t takes;      // dimensions; kRest: what the others leave
    };
    constexpr size_t kRest = SIZE_MAX;
    std::vector<Item> items;
    Dims seen;
    size_t taken = 0;
    do {
      if (scan.is_digit()) {
        items.push_back({"", 0});
        seen.push_back(std::llround(scan.number()));
        continue;
      }
      Item item{scan.identifier(), 1};
      if (scan.accept("*")) item.takes = kRest;
      if (scan.accept("^")) item.takes = static_cast<size_t>(whole(term(scan.identifier())));
      if (item.takes != kRest) taken += item.takes;
      items.push_back(std::move(item));
      seen.push_back(1);
    } while (scan.accept(","));
    scan.expect("]");
    if (actual == nullptr) return seen;
    size_t next = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].name.empty()) continue;
      const size_t takes = items[i].takes == kRest ? actual->size() - taken : items[i].takes;
      for (size_t k = 0; k < takes && next < actual->size(); ++k) seen[i] *= (*actual)[next++];
      bind_dimension(items[i].name, seen[i]);
    }
    if (element_count(seen) != element_count(*actual))
      fail("sees an operand " + to_string(*actual) + " as " + to_string(seen));
    return seen;
  }

  void bind_dimension(const std::string& name, int64_t size) {
    if (const auto [it, is_new] = bound_.emplace(name, size); !is_new && it->second != size)
      fail("has two sizes for " + name);
    terms_[name] = {static_cast<double>(size)};
  }

  // ---- statements

  void statements() {
    while (!scan_.at_end()) {
      statement();
      if (!scan_.accept(";") && !scan_.at_end()) fail("expected ';'");
    }
  }

  void statement() {
    const std::string name = scan_.identifier();
    live_ = !absent_.contains(name);
    if (scan_.accept("[")) {
      if (scan_.has_before_bracket('<')) return loop(name);
      const Dims shape = numbers("]");
      scan_.expect("=");
      const Term t = expression();
      return assign(name, live_ ? Term{0, graph_.reshape(t.value, shape)} : t);
    }
    scan_.expect("=");
    assign(name, expression());
  }

  void assign(const std::string& name, const Term& term) {
    if (live_) terms_[name] = term;
  }

  Dims numbers(const char* end) {
    Dims result;
    do {
      result.push_back(whole(expression()));
    } while (scan_.accept(","));
    scan_.expect(end);
    return result;
  }

  int64_t whole(const Term& t) const {
    if (!t.is_number()) fail("expected a number");
    return std::llround(t.number);
  }

  // A statement with loop variables; its '[' has been read.
  void loop(const std::string& name) {
    loop_.clear();
    do {
      std::string variable = scan_.identifier();
      scan_.expect("<");
      loop_.push_back({std::move(variable), whole(expression())});
    } while (scan_.accept(","));
    scan_.expect("]");
    if (scan_.accept("=>")) {
      const std::string to = scan_.identifier();
      return scatter(term(name), to, positions());
    }
    scan_.expect("=");
    const size_t place = scan_.place();
    if (scan_.is_letter()) {
      const std::string from = scan_.identifier();
      if (scan_.accept("[")) {
        scan_.go_to(scan_.place() - 1);
        return assign(name, gather(term(from), positions()));
      }
      scan_.go_to(place);
    }
    Constant constant{loop_dims(), {{sum(), std::numeric_limits<int64_t>::max()}}};
    assign(name, {0, add_constant(graph_, std::move(constant), dtype_)});
  }

  std::vector<Linear> positions() {
    std::vector<Linear> result;
    scan_.expect("[");
    do {
      result.push_back(sum());
    } while (scan_.accept(","));
    scan_.expect("]");
    return result;
  }

  // ---- numbers that depend on loop variables

  Linear sum() {
    const bool negative = scan_.accept("-");
    Linear result = (negative ? -1 : 1) * product();
    for (;;) {
      if (scan_.accept("+")) {
        result = result + product();
      } else if (scan_.accept("-")) {
        result = result + -1 * product();
      } else {
        return result;
      }
    }
  }

  Linear product() {
    Linear result = factor();
    while (scan_.accept("*")) {
      const Linear next = factor();
      if (!next.is_number() && !result.is_number()) fail("multiplies two loop variables");
      result = next.is_number() ? next.first * result : result.first * next;
    }
    return result;
  }

  Linear factor() {
    Linear result{0, std::vector<int64_t>(loop_.size(), 0)};
    if (scan_.accept("(")) {
      result = sum();
      scan_.expect(")");
      return result;
    }
    if (scan_.is_digit()) {
      result.first = std::llround(scan_.number());
      return result;
    }
    const std::string name = scan_.identifier();
    for (size_t i = 0; i < loop_.size(); ++i) {
      if (loop_[i].name != name) continue;
      result.factors[i] = 1;
      return result;
    }
    result.first = whole(term(name));
    return result;
  }

  // ---- copies of elements

  Dims loop_dims() const {
    Dims result;
    for (const Range& range : loop_) result.push_back(range.count);
    return result;
  }

  void expect_indices(const std::vector<Linear>& at, const Dims& of) const {
    if (at.size() != of.size()) fail("has the wrong number of indices");
  }

  Term gather(const Term& from, const std::vector<Linear>& at) {
    if (!live_) return {};
    expect_indices(at, dims(from));
    return {0, copy_elements(build_, from.value, loop_dims(), at)};
  }

  void scatter(const Term& from, const std::string& to, const std::vector<Linear>& at) {
    if (absent_.contains(to)) return;
    expect_indices(at, shapes_.at(to));
    const Term added{0, add_elements(build_, from.value, loop_dims(), at, shapes_.at(to))};
    const bool more = !scattered_.insert(to).second;
    terms_[to] = more ? binary(RT_OP_ADD, terms_.at(to), added) : added;
  }

  // ---- expressions

  Term term(const std::string& name) const {
    const auto it = terms_.find(name);
    if (it != terms_.end()) return it->second;
    if (live_) fail("does not know '" + name + "'");
    return {};
  }

  Term expression() {
    const Term condition = additive();
    if (!scan_.accept("?")) return condition;
    const bool live = live_, holds = condition.number != 0;
    if (live && !condition.is_number()) fail("chooses by a tensor");
    live_ = live && holds;
    const Term yes = expression();
    scan_.expect(":");
    live_ = live && !holds;
    const Term no = expression();
    live_ = live;
    return holds ? yes : no;
  }

  Term additive() {
    Term result = multiplicative();
    for (;;) {
      if (scan_.accept("+")) {
        result = binary(RT_OP_ADD, result, multiplicative());
      } else if (scan_.accept("-")) {
        result = binary(RT_OP_SUBTRACT, result, multiplicative());
      } else {
        return result;
      }
    }
  }

  Term multiplicative() {
    Term result = unary();
    for (;;) {
      if (scan_.accept("*")) {
        result = binary(RT_OP_MULTIPLY, result, unary());
      } else if (scan_.accept("/")) {
        result = binary(RT_OP_DIVIDE, result, unary());
      } else if (scan_.accept("@")) {
        result = matmul(result, unary());
      } else {
        return result;
      }
    }
  }

  Term unary() {
    if (scan_.accept("-")) return binary(RT_OP_MULTIPLY, unary(), {-1});
    Term result = primary();
    if (scan_.accept("'")) result.transposed = true;
    return result;
  }

  Term primary() {
    if (scan_.is_digit()) return {scan_.number()};
    if (scan_.accept("(")) {
      const Term inner = expression();
      scan_.expect(")");
      return inner;
    }
    const std::string name = scan_.identifier();
    return scan_.accept("(") ? function(name) : term(name);
  }

  Term binary(const char* op, const Term& a, const Term& b) {
    if (!live_) return {};
    const bool add = op == std::string_view(RT_OP_ADD),
               subtract = op == std::string_view(RT_OP_SUBTRACT),
               multiply = op == std::string_view(RT_OP_MULTIPLY);
    if (a.is_number() && b.is_number()) {
      return {add        ? a.number + b.number
              : subtract ? a.number - b.number
              : multiply ? a.number * b.number
                         : a.number / b.number};
    }
    if (b.is_number()) {
      if (add || subtract) return scale(a, 1, add ? b.number : -b.number);
      return scale(a, multiply ? b.number : 1 / b.number, 0);
    }
    if (a.is_number()) {
      if (add || subtract) return scale(b, add ? 1 : -1, a.number);
      return scale(multiply ? b : activation(b, RT_ACTIVATION_RECIPROCAL), a.number, 0);
    }
    return {0, build_.node1(op, {a.value, b.value}, broadcast(dims(a), dims(b)))};
  }

  Term scale(const Term& x, double alpha, double beta) {
    if (alpha == 1 && beta == 0) return x;
    return {0, build_.scale(x.value, alpha, beta)};
  }

  Term matmul(const Term& a, const Term& b) {
    if (!live_) return {};
    return {0, build_.matmul(a.value, b.value, a.transposed, b.transposed)};
  }

  Term activation(const Term& x, int32_t function) {
    return {0, build_.activation(x.value, function)};
  }

  Term fill(double value, const Dims& shape) {
    return {0, build_.node1(RT_OP_FILL, {}, shape, {{RT_ATTR_VALUE, value}}, dtype_)};
  }

  Term with_dims(const Term& t, const Dims& shape) {
    return dims(t) == shape ? t : binary(RT_OP_ADD, fill(0, shape), t);
  }

  // ---- functions; the '(' has been read

  std::vector<Term> arguments() {
    std::vector<Term> result;
    do {
      result.push_back(expression());
    } while (scan_.accept(","));
    scan_.expect(")");
    return result;
  }

  Term function(const std::string& name) {
    if (name == "host") return host();
    const std::vector<Term> a = arguments();
    if (!live_) return {};
    static const std::map<std::string, int32_t> activations = {
        {"exp", RT_ACTIVATION_EXP},         {"log", RT_ACTIVATION_LOG},
        {"sqrt", RT_ACTIVATION_SQRT},       {"reciprocal", RT_ACTIVATION_RECIPROCAL},
        {"relu", RT_ACTIVATION_RELU},       {"tanh", RT_ACTIVATION_TANH},
        {"sigmoid", RT_ACTIVATION_SIGMOID},
    };
    static const std::map<std::string, int32_t> reductions = {
        {"sum", RT_REDUCE_SUM}, {"mean", RT_REDUCE_MEAN}, {"max", RT_REDUCE_MAX}};
    if (name == "sqrt" && a[0].is_number()) return {std::sqrt(a[0].number)};
    if (const auto it = activations.find(name); it != activations.end())
      return activation(a[0], it->second);
    if (const auto it = reductions.find(name); it != reductions.end()) {
      uint64_t axes = 0;
      for (size_t i = 1; i < a.size(); ++i) axes |= uint64_t{1} << whole(a[i]);
      return {0, build_.reduce(a[0].value, it->second, axes, true)};
    }
    if (name == "gate") return gate(a.at(0), a.at(1));
    if (name == "fill") {
      Dims shape;
      for (size_t i = 1; i < a.size(); ++i) shape.push_back(whole(a[i]));
      return fill(a[0].number, shape);
    }
    if (name == "rows") return {0, embed(build_, a.at(1).value, a.at(0).value, whole(a.at(2)))};
    return other_formula(name, a);
  }

  Term gate(const Term& a, const Term& s) {
    const Dims shape = broadcast(a.is_number() ? Dims{} : dims(a), dims(s));
    const Term values = a.is_number() ? fill(a.number, shape) : with_dims(a, shape);
    return {0, build_.node1(RT_OP_ACTIVATION_BACKWARD, {values.value, with_dims(s, shape).value},
                            shape, {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}})};
  }

  // host(operation, like, operands...): a value of the type and dims of `like`.
  Term host() {
    const std::string operation = "host " + scan_.identifier();
    scan_.expect(",");
    const std::vector<Term> a = arguments();
    if (!live_) return {};
    std::vector<ValueId> operands;
    std::vector<Attribute> attributes = attributes_;
    for (size_t i = 1; i < a.size(); ++i) {
      if (a[i].is_number()) {
        attributes = {{RT_ATTR_BETA, a[i].number}};
      } else {
        operands.push_back(a[i].value);
      }
    }
    return {0, build_.node1(operation, operands, Dims(dims(a[0])), attributes,
                            graph_.value(a[0].value).dtype)};
  }

  Term other_formula(const std::string& name, const std::vector<Term>& arguments) {
    const Formula* const formula = find_formula(name);
    if (formula == nullptr) fail("does not know the function '" + name + "'");
    std::vector<ValueId> values;
    for (const Term& t : arguments) values.push_back(t.value);
    Expansion inner(build_, *formula, {});
    inner.dtype_ = dtype_;
    return inner.call(values, attributes_);
  }

  // ---- outputs

  // Lets the node that computed the output write into it. A value that others have written, or an
  // output in the memory of an input, which the formula may still read, is copied.
  void write(const Output& output, const Node& node, ValueId first) {
    const Term result = term(output.name);
    if (result.is_number()) fail("gives a number for '" + output.name + "'");
    if (result.value == output.value) fail("does not give '" + output.name + "'");
    const ValueId made = graph_.storage(result.value), storage = graph_.storage(output.value);
    const Value& value = graph_.value(made);
    const Dims shape = graph_.value(output.value).dims;
    const bool in_place = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
      return v != kNone && graph_.storage(v) == storage;
    });
    if (!in_place && made >= first && value.kind == ValueKind::kTemporary &&
        element_count(value.dims) == element_count(shape)) {
      graph_.value(made).base = output.value;
      return;
    }
    build_.node_into(RT_OP_COPY, {graph_.reshape(result.value, shape)}, {output.value});
  }

  Build& build_;
  Graph& graph_;
  const Formula& formula_;
  Terms terms_;
  Scanner scan_;
  std::vector<Attribute> attributes_;
  rt_dtype dtype_ = 0;  // of the floating operands
  std::map<std::string, int64_t> bound_;
  std::vector<Output> outputs_;
  std::string result_;  // the name of the first output
  std::map<std::string, Dims> shapes_;
  std::set<std::string> absent_, scattered_;
  std::vector<Range> loop_;
  bool live_ = true;
};

}  // namespace

OperandNames operand_names(const Formula& formula) {
  OperandNames names;
  Scanner scan(formula.op, formula.signature);
  std::vector<std::string>* list = &names.inputs;
  while (!scan.at_end()) {
    if (scan.accept("->")) {
      list = &names.outputs;
    } else if (scan.accept("with ")) {
      list = &names.forward_terms;
    } else if (scan.accept("{")) {
      scan.skip_to("}");
    } else {
      list->push_back(scan.identifier());
      if (scan.accept("[")) scan.skip_to("]");
      scan.accept("?");
    }
  }
  return names;
}

Terms expand(Build& build, const Node& node, const Formula& formula, Terms known) {
  return Expansion(build, formula, std::move(known)).run(node);
}

}  // namespace runtime::graph
