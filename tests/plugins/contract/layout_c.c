/* Compiles the contract as C11: every header alone and all together, with its layout. Compiling
 * is the test. */
#include <stddef.h>

#include "rt/capture.h"
#include "rt/common.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/host_process.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/operation_set.h"
#include "rt/operations.h"
#include "rt/plugin.h"
#include "rt/reader.h"

#define STRUCT(type, bytes, constant, first)                 \
  _Static_assert(sizeof(type) == (bytes), "size of " #type); \
  _Static_assert((constant) == (first), "size of " #type " in version 1");
#define FIELD(type, field, at, bytes)                                           \
  _Static_assert(offsetof(type, field) == (at), "offset of " #type "." #field); \
  _Static_assert(sizeof(((type*)0)->field) == (bytes), "size of " #type "." #field);
#include "layout.inc"

/* ISO C does not allow an empty file. */
int contract_compiles_as_c(void);
int contract_compiles_as_c(void) { return RT_ABI_MAJOR; }
