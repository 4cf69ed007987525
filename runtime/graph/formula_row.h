// A formula as text.
#ifndef RUNTIME_GRAPH_FORMULA_ROW_H_
#define RUNTIME_GRAPH_FORMULA_ROW_H_

#include <string>

namespace runtime::graph {

// One operation as a formula, in the language of formula.h.
struct Formula {
  std::string op;
  std::string signature;
  std::string text;
};

}  // namespace runtime::graph

#endif  // RUNTIME_GRAPH_FORMULA_ROW_H_
