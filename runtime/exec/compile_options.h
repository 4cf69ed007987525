// How the programs of a run are compiled and run.
#ifndef RUNTIME_EXEC_COMPILE_OPTIONS_H_
#define RUNTIME_EXEC_COMPILE_OPTIONS_H_

#include "runtime/exec/collectives.h"
#include "runtime/exec/device_target.h"

namespace runtime::exec {

struct CompileOptions {
  TargetOptions target = {};
  // The collectives of this rank, if there are several ranks. They must outlive the programs.
  Collectives* collectives = nullptr;
  bool record = false;  // see Program's constructor
};

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMPILE_OPTIONS_H_
