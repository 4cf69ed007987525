// The error of a standard output that takes no more.
#ifndef RUNTIME_OUTPUT_ERROR_H_
#define RUNTIME_OUTPUT_ERROR_H_

#include "runtime/error.h"

namespace runtime {

// Something that was printed has been lost (exit code 5; 141 without a message if the reader of the
// standard output has ended, as `head` does).
class OutputError : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace runtime

#endif  // RUNTIME_OUTPUT_ERROR_H_
