// Refusals: the answer of a plugin to an operation that is valid but that it does not do.
#ifndef RT_SDK_REFUSAL_H_
#define RT_SDK_REFUSAL_H_

#include <string>
#include <utility>

#include "rt/sdk/error.h"
#include "rt/sdk/operation.h"
#include "rt/sdk/tensor.h"

namespace rt::sdk {

// The number of output 0 in rt_support.reason_operand; output i has kFirstOutput + i.
inline constexpr int32_t kFirstOutput = 100;

// The exception that says so, with the code RT_ERROR_UNSUPPORTED. answer_query() of rt/sdk/answer.h
// turns it into a refusal; from `create` it is an error. `operand` is the number for
// rt_support.reason_operand, -1 for none.
class Refusal : public Error {
 public:
  // `message` is the text of the answer.
  Refusal(int32_t operand, std::string message)
      : Error(RT_ERROR_UNSUPPORTED, std::move(message)), operand_(operand) {}
  // Returns the number that the constructor was given.
  int32_t operand() const { return operand_; }

 private:
  int32_t operand_;
};

// Throws the refusal "<operation>: <reason>", which no operand is the cause of. A reason says what
// is not done and the nearest form that is.
[[noreturn]] inline void refuse(const Operation& op, const std::string& reason) {
  throw Refusal(-1, std::string(op.name()) + ": " + reason);
}

// "operand 1 (w)" or "output 0 (y)", for messages. `name` is that of plugins/operations.md.
inline std::string operand_text(bool output, uint32_t i, const char* name) {
  return format("%s %u (%s)", output ? "output" : "operand", i, name);
}

// Throws the refusal "<operation>: operand 1 (w) is float16 [8, 3, 3, 4]; <reason>", which names
// that operand as the cause.
[[noreturn]] inline void refuse_input(const Operation& op, uint32_t i, const char* name,
                                      const std::string& reason) {
  throw Refusal(static_cast<int32_t>(i), std::string(op.name()) + ": " +
                                             operand_text(false, i, name) + " is " +
                                             to_string(op.input(i)) + "; " + reason);
}
// The same for an output.
[[noreturn]] inline void refuse_output(const Operation& op, uint32_t i, const char* name,
                                       const std::string& reason) {
  throw Refusal(kFirstOutput + static_cast<int32_t>(i),
                std::string(op.name()) + ": " + operand_text(true, i, name) + " is " +
                    to_string(op.output(i)) + "; " + reason);
}

}  // namespace rt::sdk

#endif  // RT_SDK_REFUSAL_H_
