/* Optional table of a plugin: operations of its own, each of them a type of layer or an optimizer
 * of configurations under the name "<plugin>.<name>". Interface "rt.operations", version 1. A
 * plugin may offer this table alone, without a device. ../operations.md, "Operations of a plugin",
 * defines the language of signatures and formulas. Equivalent to: torch.library with
 * decompositions. */
#ifndef RT_OPERATION_SET_H_
#define RT_OPERATION_SET_H_

#include "rt/common.h"
#include "rt/kernel.h"
#include "rt/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and version for rt_plugin.get_interface. */
#define RT_INTERFACE_OPERATIONS "rt.operations"
#define RT_OPERATIONS_API_VERSION 1

/* rt_parameter_spec.init: how a learned parameter begins. */
#define RT_INIT_MODEL 1    /* as the key `init` of the layer or of the model says */
#define RT_INIT_CONSTANT 2 /* every element is `value` */

/* A learned parameter of a layer: an input of the signature behind the first one. */
typedef struct rt_parameter_spec {
  uint32_t size;
  int32_t init;            /* RT_INIT_* */
  const char* name;        /* of the input; the parameter is called <layer>.<name> in files */
  const char* description; /* one sentence for documentation */
  double value;            /* of RT_INIT_CONSTANT; else 0 */
} rt_parameter_spec;
#define RT_PARAMETER_SPEC_SIZE_V1 32

/* rt_operation_spec.kind */
#define RT_OPERATION_LAYER 1     /* model.layers: { type = "<plugin>.<name>", ... } */
#define RT_OPERATION_OPTIMIZER 2 /* optimizer.name = "<plugin>.<name>" */

/* rt_operation_spec.flags */
/* A device that runs the operation without a formula also runs its backward operation, which is
 * called "<plugin>.<name>_backward": the gradient of the output, the inputs and the output -> the
 * gradients of all inputs. */
#define RT_OPERATION_HAS_BACKWARD 0x1u

/* An operation that the plugin brings. Devices are asked for it as for every other operation, under
 * the name "<plugin>.<name>" (an optimizer: "<plugin>.<name>_update"); where a device refuses it,
 * the core computes the formula. All texts are UTF-8. */
typedef struct rt_operation_spec {
  uint32_t size;
  int32_t kind;          /* RT_OPERATION_LAYER or RT_OPERATION_OPTIMIZER */
  const char* name;      /* [a-z][a-z0-9_]*, without the plugin's name */
  const char* signature; /* "x[R*,D] weight[D] {epsilon} -> y[R*,D]" */
  const char* formula;   /* NULL: only devices that accept the operation run it */
  /* Assigns dNAME for every input NAME from the inputs, the output and the output's gradient. NULL:
   * the gradient follows from the formula; without one, see RT_OPERATION_HAS_BACKWARD. NULL for an
   * optimizer. */
  const char* gradient;
  const char* description; /* one sentence for documentation */
  /* The attributes in the braces of the signature, which are keys of the configuration: booleans,
   * integers and numbers. A default of "" means that the configuration must give the key. */
  const rt_option_spec* const* attributes;
  const rt_parameter_spec* const* parameters; /* of a layer; every input but the first has one */
  uint32_t attribute_count;                   /* elements of `attributes` */
  uint32_t parameter_count;                   /* elements of `parameters` */
  uint32_t flags;                             /* RT_OPERATION_* */
  uint32_t reserved;
  /* Writes rank and dims of the output, whose type is that of the first input. Mandatory without a
   * formula, else NULL. `op` has the name, the inputs and the attributes; `op->outputs` is NULL.
   * Called by any thread, also concurrently. */
  rt_status (*shape)(void* self, const rt_op_desc* op, rt_tensor_desc* output, rt_error* error);
} rt_operation_spec;
#define RT_OPERATION_SPEC_SIZE_V1 88

/* The functions of the interface. The plugin owns the table; no slot may be NULL. */
typedef struct rt_operations_api {
  uint32_t size;
  uint32_t version; /* RT_OPERATIONS_API_VERSION */
  /* Returns an array of `*count` pointers to the operations. The plugin owns the array and all that
   * it leads to, which stay valid until rt_plugin.shutdown. */
  const rt_operation_spec* const* (*specs)(void* self, uint32_t* count);
} rt_operations_api;
#define RT_OPERATIONS_API_SIZE_V1 16

#ifdef __cplusplus
}
#endif

#endif /* RT_OPERATION_SET_H_ */
