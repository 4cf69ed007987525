// What a rank says of what another one has found out.
#ifndef RUNTIME_WATCH_TOLD_H_
#define RUNTIME_WATCH_TOLD_H_

#include "runtime/error.h"

namespace runtime::watch {

// What a rank says when another one has found out why the job cannot go on.
enum class Told {
  kAll,      // all that the other one says: their outputs are one
  kBriefly,  // the cause, and who says more: their outputs may be in different places
  kNothing   // it throws ToldError: their outputs come together
};

// The job cannot go on, and another rank says why where this one would.
class ToldError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_TOLD_H_
