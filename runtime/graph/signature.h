// The signature of a formula as data: its operands, and the dims that their names stand for.
#ifndef RUNTIME_GRAPH_SIGNATURE_H_
#define RUNTIME_GRAPH_SIGNATURE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/formula_row.h"
#include "runtime/graph/graph.h"

namespace runtime::graph {

// One name or number in the brackets behind an operand, see formula.h.
struct ViewItem {
  enum class Takes { kOne, kRest, kAttribute, kNone };  // D, R*, A^axis, 1
  std::string name;                                     // "" of a number
  Takes takes = Takes::kOne;
  std::string attribute = {};  // of kAttribute
};

// An operand: its name, and what stands in its brackets.
struct SignatureOperand {
  std::string name;
  bool shaped = false, optional = false;
  std::vector<ViewItem> view;  // empty unless it is shaped
  std::string view_text;       // "[R*,D]", or ""
};

struct Signature {
  std::vector<SignatureOperand> inputs, outputs;
  std::vector<std::string> attributes, forward_terms;  // those behind `with`
  std::map<std::string, double> defaults;              // of attributes; 0 without one
  std::string attributes_text;                         // "{epsilon groups=1}", or ""
};

// Throws as Scanner::fail does where the text is no signature.
Signature read_signature(const Formula& formula);

// The names of the operands, in their order.
struct OperandNames {
  std::vector<std::string> inputs, outputs;
};
OperandNames operand_names(const Formula& formula);

// The dims that each name of a signature stands for.
using NamedDims = std::map<std::string, Dims, std::less<>>;
// The value of an attribute that a signature names. Throws std::out_of_range if there is none.
using AttributeValue = std::function<int64_t(const std::string& name)>;

// Whether `dims` can be seen as the operand; if so, adds what its names stand for to `names`. False
// as well if a name stands for other dims already.
bool match(const SignatureOperand& operand, const Dims& dims, const AttributeValue& attribute,
           NamedDims& names);

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_SIGNATURE_H_
