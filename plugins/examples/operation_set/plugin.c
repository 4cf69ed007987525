/* A plugin without a device: three layers and two optimizers, all written as formulas, which every
 * device can run. ../../operations.md, "Operations of a plugin", explains the language. */
#include "rt/plugin.h"

#include <stdio.h>
#include <string.h>

#include "rt/operation_set.h"

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define NUMBER(key, value, text) \
  { sizeof(rt_option_spec), RT_OPTION_NUMBER, key, value, text }
#define INTEGER(key, value, text) \
  { sizeof(rt_option_spec), RT_OPTION_INTEGER, key, value, text }

/* ---- layers */

static const rt_option_spec beta = NUMBER("beta", "1", "slope of the sigmoid; large: relu");
static const rt_option_spec* const swish_attributes[] = {&beta};

/* Ramachandran, Zoph and Le, "Searching for Activation Functions" (2017). */
static const rt_operation_spec swish = {
    .size = sizeof(rt_operation_spec),
    .kind = RT_OPERATION_LAYER,
    .name = "swish",
    .signature = "x {beta} -> y",
    .formula = "y = x * sigmoid(beta * x)",
    .gradient = "s = sigmoid(beta * x); dx = dy * (s + beta * (y - y * s))",
    .description = "x * sigmoid(beta * x).",
    .attributes = swish_attributes,
    .attribute_count = COUNT(swish_attributes),
};

static const rt_option_spec eps = NUMBER("eps", "1e-5", "added to the mean of the squares");
static const rt_option_spec* const rms_norm_attributes[] = {&eps};
static const rt_parameter_spec scale = {sizeof(rt_parameter_spec), RT_INIT_CONSTANT, "weight",
                                        "scale of each feature", 1};
static const rt_parameter_spec* const rms_norm_parameters[] = {&scale};

/* Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019). The core derives the gradient.
 */
static const rt_operation_spec rms_norm = {
    .size = sizeof(rt_operation_spec),
    .kind = RT_OPERATION_LAYER,
    .name = "rms_norm",
    .signature = "x[R*,D] weight[D] {eps} -> y[R*,D]",
    .formula = "y = x * reciprocal(sqrt(mean(x * x, 1) + eps)) * weight",
    .description = "Divides the features of each sample or token by their root mean square.",
    .attributes = rms_norm_attributes,
    .parameters = rms_norm_parameters,
    .attribute_count = COUNT(rms_norm_attributes),
    .parameter_count = COUNT(rms_norm_parameters),
};

static const rt_option_spec features = INTEGER("features", "", "output features");
static const rt_option_spec* const gated_attributes[] = {&features};
static const rt_parameter_spec value_weight = {sizeof(rt_parameter_spec), RT_INIT_MODEL, "value",
                                               "weight of the values", 0};
static const rt_parameter_spec opening_weight = {sizeof(rt_parameter_spec), RT_INIT_MODEL,
                                                 "opening", "weight of the gates", 0};
static const rt_parameter_spec* const gated_parameters[] = {&value_weight, &opening_weight};

/* Dauphin et al., "Language Modeling with Gated Convolutional Networks" (2016). */
static const rt_operation_spec gated_linear = {
    .size = sizeof(rt_operation_spec),
    .kind = RT_OPERATION_LAYER,
    .name = "gated_linear",
    .signature = "x[R*,D] value[features,D] opening[features,D] {features} -> y[R*,features]",
    .formula = "y = (x @ value') * sigmoid(x @ opening')",
    .description = "A linear layer whose features are gated by the sigmoid of another one.",
    .attributes = gated_attributes,
    .parameters = gated_parameters,
    .attribute_count = COUNT(gated_attributes),
    .parameter_count = COUNT(gated_parameters),
};

/* ---- optimizers */

static const rt_option_spec beta1 = NUMBER("beta1", "0.9", "decay of the mean gradient");
static const rt_option_spec beta2 = NUMBER("beta2", "0.999", "decay of the variance around it");
static const rt_option_spec epsilon =
    NUMBER("epsilon", "1e-8", "added to the variance and its root");
/* The value of this attribute is the key optimizer.weight_decay. */
static const rt_option_spec weight_decay = NUMBER("weight_decay", "0", "decoupled weight decay");
static const rt_option_spec* const adabelief_attributes[] = {&beta1, &beta2, &epsilon,
                                                             &weight_decay};

/* Zhuang et al., "AdaBelief Optimizer" (2020). */
static const rt_operation_spec adabelief = {
    .size = sizeof(rt_operation_spec),
    .kind = RT_OPERATION_OPTIMIZER,
    .name = "adabelief",
    .signature =
        "p[E*] g[E*] lr[1] m[E*] s[E*] step {beta1 beta2 epsilon weight_decay}"
        " -> p[E*] m[E*] s[E*]",
    .formula =
        "m = beta1 * m + (1 - beta1) * g;"
        "d = g - m;"
        "s = beta2 * s + (1 - beta2) * (d * d) + epsilon;"
        "mhat = m / host(bias_correction, lr, step, beta1);"
        "shat = s / host(bias_correction, lr, step, beta2);"
        "p = p * (1 - weight_decay * lr) - lr * (mhat / (sqrt(shat) + epsilon))",
    .description = "Adam with the variance of the gradient around its mean.",
    .attributes = adabelief_attributes,
    .attribute_count = COUNT(adabelief_attributes),
};

static const rt_option_spec momentum = NUMBER("momentum", "0.9", "decay of the mean gradient");
static const rt_option_spec* const signum_attributes[] = {&momentum};

/* Bernstein et al., "signSGD: Compressed Optimisation for Non-Convex Problems" (2018). Without an
 * attribute weight_decay, the core adds weight decay to the gradient. A step that is NaN stays NaN.
 */
static const rt_operation_spec signum = {
    .size = sizeof(rt_operation_spec),
    .kind = RT_OPERATION_OPTIMIZER,
    .name = "signum",
    .signature = "p[E*] g[E*] lr[1] m[E*] {momentum} -> p[E*] m[E*]",
    .formula =
        "m = momentum * m + (1 - momentum) * g;"
        "p = p - lr * (positive(m) - positive(-m) + gate(m, is_nan(m)))",
    .description = "The sign of the mean gradient.",
    .attributes = signum_attributes,
    .attribute_count = COUNT(signum_attributes),
};

static const rt_operation_spec* const all_specs[] = {&swish, &rms_norm, &gated_linear, &adabelief,
                                                     &signum};

static const rt_operation_spec* const* specs(void* self, uint32_t* count) {
  (void)self;
  *count = COUNT(all_specs);
  return all_specs;
}

static const rt_operations_api operations = {sizeof(operations), RT_OPERATIONS_API_VERSION, specs};

/* ---- the plugin, which has no state: all instances are the same struct */

static const void* get_interface(void* self, const char* name, uint32_t version) {
  (void)self;
  const int known = strcmp(name, RT_INTERFACE_OPERATIONS) == 0;
  return known && version == RT_OPERATIONS_API_VERSION ? &operations : NULL;
}

static const rt_option_spec* const* no_options(void* self, uint32_t* count) {
  (void)self;
  *count = 0;
  return NULL;
}

static void shutdown_plugin(void* self) { (void)self; }

static const rt_plugin plugin_view = {
    .size = sizeof(rt_plugin),
    .name = "extra", /* layers and optimizers are "extra.swish", ... */
    .vendor = "your name",
    .version = RUNTIME_PLUGIN_VERSION,
    .build_id = "extra-" RUNTIME_PLUGIN_VERSION,
    .description = "layers and optimizers as formulas",
    .get_interface = get_interface,
    .options = no_options,
    .shutdown = shutdown_plugin,
};

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  (void)host;
  negotiation->plugin_major = RT_ABI_MAJOR;
  if (negotiation->size >= sizeof(rt_negotiation)) negotiation->plugin_minor = RT_ABI_MINOR;
  if (negotiation->host_major_min > RT_ABI_MAJOR || negotiation->host_major_max < RT_ABI_MAJOR) {
    if (error != NULL && error->size >= RT_ERROR_SIZE_V1) {
      error->code = RT_ERROR_VERSION;
      snprintf(error->message, sizeof(error->message),
               "plugin extra was built for version %d of the contract, the host speaks %u to %u",
               RT_ABI_MAJOR, negotiation->host_major_min, negotiation->host_major_max);
    }
    return RT_ERROR_VERSION;
  }
  *plugin = &plugin_view;
  return RT_OK;
}
