// Parses formulas and, in the same walk, expands them into nodes.
#include "runtime/graph/formula.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "runtime/error.h"
#include "runtime/graph/activations.h"
#include "runtime/graph/broadcast.h"
#include "runtime/graph/element_copies.h"
#include "runtime/graph/host_operations.h"
#include "runtime/graph/index_reader.h"
#include "runtime/graph/signature.h"

namespace runtime::graph {
namespace {

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
    set_attributes(node.attributes);
    const auto first = static_cast<ValueId>(graph_.values.size());
    guarded([&] {
      bind(node.inputs, &node.outputs);
      statements();
      for (const Output& output : outputs_) write(output, node, first);
    });
    return std::move(terms_);
  }

  // The value of the first output, for operands of which there is no node.
  ValueId evaluate(const std::vector<ValueId>& inputs, const std::vector<Attribute>& attributes) {
    set_attributes(attributes);
    ValueId result = kNone;
    guarded([&] {
      bind(inputs, nullptr);
      statements();
      result = tensor(term(result_));
    });
    return result;
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

  // Whatever a formula of a plugin provokes is a fault of that formula, at the place of the
  // scanner.
  template <typename Body>
  void guarded(Body&& body) {
    if (!of_plugin_) return body();
    try {
      body();
    } catch (const DeviceError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      fail(std::string("cannot be computed: ") + e.what());
    }
  }

  void set_attributes(const std::vector<Attribute>& attributes) {
    for (const Attribute& a : attributes)
      std::visit([&](auto v) { terms_[a.name] = {static_cast<double>(v)}; }, a.value);
    attributes_ = attributes;
  }

  // A level of nesting, which formulas of plugins may not have without end.
  class Level {
   public:
    explicit Level(Expansion& expansion) : level_(expansion.level_) {
      if (++level_ > kMaxLevels) expansion.fail("is nested too deeply");
    }
    ~Level() { --level_; }

   private:
    static constexpr int kMaxLevels = 100;
    int& level_;
  };

  // The value of a term that must be a tensor, and no transpose of one.
  ValueId tensor(const Term& t) const {
    if (t.is_number()) fail("expected a tensor, found a number,");
    if (t.transposed) fail("transposes what is no factor of '@'");
    return t.value;
  }

  // The dims of a tensor that a formula asks for by numbers.
  Dims asked(Dims dims, double most = 1ll << 31) const {
    double elements = 1;
    bool positive = true;
    for (const int64_t d : dims) {
      elements *= static_cast<double>(d);
      positive &= d > 0;
    }
    if (of_plugin_ && live_ && (!positive || elements > most || dims.size() > RT_MAX_RANK))
      fail("asks for a tensor " + to_string(dims));
    return dims;
  }

  const Dims& dims(const Term& t) const { return graph_.value(t.value).dims; }

  // ---- signature

  // Without `outputs` the formula is a function, whose outputs are what it assigns.
  void bind(const std::vector<ValueId>& inputs, const std::vector<ValueId>* outputs) {
    const Signature s = read_signature(formula_);
    for (const auto& [name, value] : s.defaults) terms_.emplace(name, Term{value});
    for (const std::string& name : s.forward_terms) {
      if (!terms_.contains(name)) fail("needs '" + name + "' of the forward operation");
    }
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      const SignatureOperand& o = s.inputs[i];
      const ValueId v = i < inputs.size() ? inputs[i] : kNone;
      if (v == kNone && !o.optional) fail("needs operand '" + o.name + "'");
      const Dims seen = view_dims(o, v);
      if (v != kNone) terms_[o.name] = {0, o.shaped ? graph_.reshape(v, seen) : v};
    }
    if (s.inputs.size() < inputs.size()) fail("has too few inputs");
    result_ = s.outputs.at(0).name;
    if (outputs == nullptr) return;
    for (size_t i = 0; i < s.outputs.size(); ++i)
      bind_output(s.outputs[i], i < outputs->size() ? (*outputs)[i] : kNone);
  }

  void bind_output(const SignatureOperand& o, ValueId v) {
    if (v == kNone) {
      absent_.insert(o.name);
      return;
    }
    shapes_[o.name] = view_dims(o, v);
    outputs_.push_back({o.name, v});
    terms_.try_emplace(o.name, Term{0, v});  // for its type and dims, until it is assigned
  }

  // The dims with which the formula sees an operand, whose names it binds; empty unless the operand
  // is there and has brackets.
  Dims view_dims(const SignatureOperand& o, ValueId v) {
    if (v == kNone) return {};
    const Value& value = graph_.value(v);
    if (dtype_ == 0 && (value.dtype == RT_FLOAT32 || value.dtype == RT_FLOAT64))
      dtype_ = value.dtype;
    if (!o.shaped) return {};
    const Dims actual = value.dims;
    size_t taken = 0;
    for (const ViewItem& item : o.view) taken += takes(item, 0);
    const size_t rest = actual.size() - std::min(taken, actual.size());
    Dims seen;
    size_t next = 0;
    for (const ViewItem& item : o.view) {
      int64_t size = 1;
      const size_t end = std::min(next + takes(item, rest), actual.size());
      while (next < end) size *= actual[next++];
      if (!item.name.empty()) bind_dimension(item.name, size);
      seen.push_back(size);
    }
    if (element_count(seen) != element_count(actual))
      fail("sees an operand " + to_string(actual) + " as " + to_string(seen));
    return seen;
  }

  size_t takes(const ViewItem& item, size_t rest) const {
    using Takes = ViewItem::Takes;
    if (item.takes == Takes::kRest) return rest;
    if (item.takes == Takes::kAttribute) return static_cast<size_t>(whole(term(item.attribute)));
    return item.takes == Takes::kOne ? 1 : 0;
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
      return assign(name, live_ ? Term{0, graph_.reshape(tensor(t), shape)} : t);
    }
    scan_.expect("=");
    assign(name, expression());
  }

  void assign(const std::string& name, const Term& term) {
    if (live_) terms_[name] = term;
  }

  Dims numbers(const char* end) {
    Dims result;
    scan_.read_list(end, [&] { result.push_back(whole(expression())); });
    return asked(std::move(result), 1e12);
  }

  int64_t whole(const Term& t) const {
    if (!t.is_number()) fail("expected a number");
    if (!(std::abs(t.number) < 1e15)) fail("counts with a number that is not finite or too large");
    return std::llround(t.number);
  }

  // A statement with loop variables; its '[' has been read.
  void loop(const std::string& name) {
    loop_.clear();
    scan_.read_list("]", [&] {
      std::string variable = scan_.identifier();
      scan_.expect("<");
      loop_.push_back({std::move(variable), whole(expression())});
    });
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
    scan_.read_list("]", [&] { result.push_back(sum()); });
    return result;
  }

  Linear sum() {
    std::vector<std::string> variables;
    for (const Range& range : loop_) variables.push_back(range.name);
    return IndexReader(scan_, variables,
                       [this](const std::string& name) { return whole(term(name)); })
        .sum();
  }

  // ---- copies of elements

  Dims loop_dims() const {
    Dims result;
    for (const Range& range : loop_) result.push_back(range.count);
    return asked(std::move(result));
  }

  void expect_indices(const std::vector<Linear>& at, const Dims& of) const {
    if (at.size() != of.size()) fail("has the wrong number of indices");
  }

  Term gather(const Term& from, const std::vector<Linear>& at) {
    if (!live_) return {};
    tensor(from);
    expect_indices(at, dims(from));
    return {0, copy_elements(build_, from.value, loop_dims(), at)};
  }

  void scatter(const Term& from, const std::string& to, const std::vector<Linear>& at) {
    if (absent_.contains(to)) return;
    tensor(from);
    if (!shapes_.contains(to)) fail("adds to '" + to + "', which is no output with known dims");
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
    const Level level(*this);
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
    const Level level(*this);
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
    if (a.transposed || b.transposed) fail("transposes what is no factor of '@'");
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
    const Dims shape = broadcast_of(dims(a), dims(b));
    return {0, build_.node1(op, {a.value, b.value}, shape)};
  }

  Term scale(const Term& x, double alpha, double beta) {
    if (alpha == 1 && beta == 0) return x;
    return {0, build_.scale(x.value, alpha, beta)};
  }

  Term matmul(const Term& a, const Term& b) {
    if (!live_) return {};
    if (a.is_number() || b.is_number()) fail("multiplies a number by '@'");
    return {0, build_.matmul(a.value, b.value, a.transposed, b.transposed)};
  }

  Term activation(const Term& x, int32_t function) {
    return {0, build_.activation(tensor(x), function)};
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
    scan_.read_list(")", [&] { result.push_back(expression()); });
    return result;
  }

  Term function(const std::string& name) {
    if (name == "host") return host();
    const std::vector<Term> a = arguments();
    if (!live_) return {};
    static const std::map<std::string, int32_t>& reductions = *new std::map<std::string, int32_t>{
        {"sum", RT_REDUCE_SUM}, {"mean", RT_REDUCE_MEAN}, {"max", RT_REDUCE_MAX}};
    if (name == "sqrt" && a[0].is_number()) return {std::sqrt(a[0].number)};
    if (const int32_t of = activation_function(name); of != 0 && of != RT_ACTIVATION_SILU)
      return activation(a[0], of);
    if (const int32_t of = backward_function(name); of != 0)
      return activation_backward(a.at(0), a.at(1), of);
    if (const auto it = reductions.find(name); it != reductions.end()) {
      uint64_t axes = 0;
      for (size_t i = 1; i < a.size(); ++i)
        axes |= uint64_t{1} << axis(a[i], dims({0, tensor(a[0])}));
      return {0, build_.reduce(a[0].value, it->second, axes, true)};
    }
    if (name == "gate") return gate(a.at(0), a.at(1));
    if (name == "fill") {
      Dims shape;
      for (size_t i = 1; i < a.size(); ++i) shape.push_back(whole(a[i]));
      return fill(a[0].number, asked(std::move(shape)));
    }
    if (name == "rows") return rows(a.at(0), a.at(1), whole(a.at(2)));
    return other_formula(name, a);
  }

  Dims broadcast_of(const Dims& a, const Dims& b) const {
    const std::optional<Dims> both = broadcast(a, b);
    if (!both)
      fail("combines " + to_string(a) + " and " + to_string(b) + ", which do not broadcast,");
    return *both;
  }

  int64_t axis(const Term& number, const Dims& of) const {
    const int64_t i = whole(number);
    if (i < 0 || i >= static_cast<int64_t>(of.size()))
      fail("reduces axis " + std::to_string(i) + " of " + to_string(of));
    return i;
  }

  Term gate(const Term& a, const Term& s) { return activation_backward(a, s, RT_ACTIVATION_RELU); }

  Term activation_backward(const Term& a, const Term& s, int32_t function) {
    const Dims shape =
        broadcast_of(a.is_number() ? Dims{} : dims({0, tensor(a)}), dims({0, tensor(s)}));
    const Term values = a.is_number() ? fill(a.number, shape) : with_dims(a, shape);
    return {0, build_.node1(RT_OP_ACTIVATION_BACKWARD, {values.value, with_dims(s, shape).value},
                            shape, {{RT_ATTR_FUNCTION, int64_t{function}}})};
  }

  Term rows(const Term& table, const Term& indices, int64_t first) {
    if (dims({0, tensor(table)}).size() != 2) fail("looks for rows in no matrix");
    if (graph_.value(tensor(indices)).dtype != RT_INT32) fail("looks for rows by no whole numbers");
    return {0, embed(build_, indices.value, table.value, first)};
  }

  // The host computes one thing for plugins, from the number of the step.
  void expect_bias_correction(const std::string& operation, const std::vector<Term>& a) const {
    if (!of_plugin_) return;
    const bool right = operation == kBiasCorrection && a.size() == 3 && a[2].is_number() &&
                       element_count(dims({0, tensor(a[0])})) == 1 &&
                       graph_.value(tensor(a[1])).dtype == RT_INT64;
    if (!right) fail("expected host(bias_correction, lr, step, number)");
  }

  // host(operation, like, operands...): a value of the type and dims of `like`.
  Term host() {
    const std::string operation = "host " + scan_.identifier();
    scan_.expect(",");
    const std::vector<Term> a = arguments();
    if (!live_) return {};
    expect_bias_correction(operation, a);
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
    for (const Term& t : arguments) values.push_back(tensor(t));
    Expansion inner(build_, *formula, {});
    inner.dtype_ = dtype_;
    inner.of_plugin_ = of_plugin_;
    return inner.call(values, attributes_);
  }

  // ---- outputs

  // Lets the node that computed the output write into it. A value that others have written, or an
  // output in the memory of an input, which the formula may still read, is copied.
  void write(const Output& output, const Node& node, ValueId first) {
    const Term result = term(output.name);
    if (result.transposed) fail("transposes '" + output.name + "'");
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
  int level_ = 0;
  bool of_plugin_ = is_open(formula_.op);  // or a function in such a formula
};

}  // namespace

ValueId evaluate(Build& build, const Formula& formula, const std::vector<ValueId>& inputs,
                 const std::vector<Attribute>& attributes) {
  return Expansion(build, formula, {}).evaluate(inputs, attributes);
}

Terms expand(Build& build, const Node& node, const Formula& formula, Terms known) {
  return Expansion(build, formula, std::move(known)).run(node);
}

}  // namespace runtime::graph
