// Operations written as formulas over other operations, and their expansion into nodes.
//
// A formula is text. Its signature names the operands, their dimensions and the attributes:
//
//   x[R*,D] gamma[D] {epsilon} -> y[R*,D]
//
// An operand is seen with the dimensions in brackets: a name takes one dimension, a name with a
// star all that the others leave, A^axis as many as the attribute `axis` says, a number none (it
// only shapes the view). Without brackets an operand keeps its dimensions. `?` behind an operand:
// it may be absent. `{groups=1}` gives the default of an attribute. Names of dimensions and
// attributes are numbers in the formula.
//
// Behind `with` the signature of a backward operation names the terms of the forward operation that
// it reads.
//
// The formula is a list of statements, separated by `;`. The value that is assigned to the name of
// an output is that output.
//
//   d = x - mean(x, 1)                   + - * / with broadcasting; @ is matmul, ' transposes
//   g = decay ? g + decay * p : g        one of two, by a number
//   y[N,P,Q] = t                         the same elements with other dimensions
//   w[p<P, k<K] = x[p * stride + k - 1]  copies elements; zeros where an index leaves x
//   w[p<P, k<K] => x[p * stride + k - 1] adds the elements of w to those of x, which begins with
//                                        zeros and is an output
//   r[k<K] = K - k                       whole numbers
//
// Functions: exp log sqrt reciprocal relu gelu gelu_tanh tanh sigmoid; relu_backward(dy, s) and so
// on are `activation_backward`; sum mean max (x, axes...) keep the reduced axes as 1; gate(a, s) is
// a where s > 0 or s is NaN, else 0; fill(value, dims...); rows(table, indices, first_row) is
// `embedding`; host(operation, like, operands...) is computed by the host (see host_operations.h);
// and every formula of one output, by its name.
#ifndef RUNTIME_GRAPH_FORMULA_H_
#define RUNTIME_GRAPH_FORMULA_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/graph/build.h"
#include "runtime/graph/compositions.h"

namespace runtime::graph {

// A term is what a name of a formula stands for: a number, or a value of the graph.
struct Term {
  double number = 0;
  ValueId value = kNone;  // kNone: it is a number
  bool transposed = false;

  bool is_number() const { return value == kNone; }
};
using Terms = std::map<std::string, Term, std::less<>>;

// Appends the nodes that compute `node` by the formula, in the layer and phase of `build`, to the
// graph of `build`, which does not contain `node`. The formula knows the terms `known` by their
// names, as well as its own. Returns all terms. Throws InternalError if the formula does not fit
// the node's operands, and DeviceError if it is a plugin's.
Terms expand(Build& build, const Node& node, const Formula& formula, Terms known = {});

// Appends the nodes of the formula for operands of which there is no node; returns the value of the
// first output with the dims that the formula gives it. Throws as expand() does.
ValueId evaluate(Build& build, const Formula& formula, const std::vector<ValueId>& inputs,
                 const std::vector<Attribute>& attributes);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_FORMULA_H_
