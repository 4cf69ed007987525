// Reads the operands and attributes of a signature, and matches names with dims.
#include "runtime/graph/signature.h"

#include <algorithm>

#include "runtime/graph/scanner.h"

namespace runtime::graph {

namespace {

using Takes = ViewItem::Takes;

ViewItem read_item(Scanner& scan) {
  if (scan.is_digit()) {
    if (scan.number() != 1) scan.fail("expected 1 or a name in brackets");
    return {"", Takes::kNone};
  }
  ViewItem item{scan.identifier()};
  if (scan.accept("*")) item.takes = Takes::kRest;
  if (scan.accept("^")) {
    item.takes = Takes::kAttribute;
    item.attribute = scan.identifier();
  }
  return item;
}

SignatureOperand read_operand(Scanner& scan, std::string_view text) {
  SignatureOperand operand;
  operand.name = scan.identifier();
  const size_t begin = scan.place();
  operand.shaped = scan.accept("[");
  if (operand.shaped) {
    scan.read_list("]", [&] { operand.view.push_back(read_item(scan)); });
    operand.view_text = text.substr(begin, scan.place() - begin);
  }
  operand.optional = scan.accept("?");
  return operand;
}

void read_attributes(Scanner& scan, std::string_view text, Signature& signature) {
  const size_t begin = scan.place() - 1;
  while (!scan.accept("}")) {
    const std::string name = scan.identifier();
    signature.attributes.push_back(name);
    signature.defaults[name] = scan.accept("=") ? scan.number() : 0;
  }
  signature.attributes_text = text.substr(begin, scan.place() - begin);
}

// How many dimensions an item takes, if `rest` are left for R*.
int64_t taken_by(const ViewItem& item, int64_t rest, const AttributeValue& attribute) {
  switch (item.takes) {
    case Takes::kOne:
      return 1;
    case Takes::kRest:
      return rest;
    case Takes::kAttribute:
      return attribute(item.attribute);
    default:
      return 0;
  }
}

}  // namespace

Signature read_signature(const Formula& formula) {
  Scanner scan(formula.op, formula.signature);
  Signature signature;
  bool outputs = false;
  while (!scan.at_end()) {
    if (!outputs && scan.accept("->")) {
      outputs = true;
    } else if (!outputs && scan.accept("{")) {
      read_attributes(scan, formula.signature, signature);
    } else if (!outputs && scan.accept("with ")) {
      while (scan.is_letter()) signature.forward_terms.push_back(scan.identifier());
    } else {
      (outputs ? signature.outputs : signature.inputs)
          .push_back(read_operand(scan, formula.signature));
    }
  }
  if (!outputs) scan.fail("needs '->' and an output");
  return signature;
}

OperandNames operand_names(const Formula& formula) {
  const Signature signature = read_signature(formula);
  OperandNames names;
  for (const SignatureOperand& o : signature.inputs) names.inputs.push_back(o.name);
  for (const SignatureOperand& o : signature.outputs) names.outputs.push_back(o.name);
  return names;
}

bool match(const SignatureOperand& operand, const Dims& dims, const AttributeValue& attribute,
           NamedDims& names) {
  if (!operand.shaped) return true;
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t fixed = 0;
  for (const ViewItem& item : operand.view) fixed += taken_by(item, 0, attribute);
  const bool has_rest = std::any_of(operand.view.begin(), operand.view.end(),
                                    [](const ViewItem& i) { return i.takes == Takes::kRest; });
  if (fixed > rank || (!has_rest && fixed < rank)) return false;
  int64_t next = 0;
  for (const ViewItem& item : operand.view) {
    const int64_t takes = taken_by(item, rank - fixed, attribute);
    if (takes < 0 || next + takes > rank) return false;
    const Dims part(dims.begin() + next, dims.begin() + next + takes);
    next += takes;
    if (item.name.empty()) continue;
    if (const auto [it, is_new] = names.emplace(item.name, part); !is_new && it->second != part)
      return false;
  }
  return next == rank;
}

}  // namespace runtime::graph
