/* Names of the operations, names of their attributes, and the values of enumerated attributes.
 * plugins/operations.md has shapes, formulas and gradients; backends/reference is the executable
 * definition. */
#ifndef RT_OPERATIONS_H_
#define RT_OPERATIONS_H_

/* Linear algebra and convolution */
#define RT_OP_MATMUL "matmul"
#define RT_OP_CONV2D "conv2d"
#define RT_OP_CONV2D_BACKWARD_DATA "conv2d_backward_data"
#define RT_OP_CONV2D_BACKWARD_WEIGHTS "conv2d_backward_weights"
/* Pooling */
#define RT_OP_MAX_POOL2D "max_pool2d"
#define RT_OP_MAX_POOL2D_BACKWARD "max_pool2d_backward"
#define RT_OP_AVG_POOL2D "avg_pool2d"
#define RT_OP_AVG_POOL2D_BACKWARD "avg_pool2d_backward"
#define RT_OP_GLOBAL_AVG_POOL "global_avg_pool"
#define RT_OP_GLOBAL_AVG_POOL_BACKWARD "global_avg_pool_backward"
#define RT_OP_CONV2D_POOL2D "conv2d_pool2d" /* these two since minor version 1 */
#define RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS "conv2d_pool2d_backward_weights"
/* Element by element */
#define RT_OP_ACTIVATION "activation"
#define RT_OP_ACTIVATION_BACKWARD "activation_backward"
#define RT_OP_ADD "add"
#define RT_OP_SUBTRACT "subtract"
#define RT_OP_MULTIPLY "multiply"
#define RT_OP_DIVIDE "divide"
#define RT_OP_SCALE "scale"
#define RT_OP_DROPOUT "dropout"
#define RT_OP_GATED_ACTIVATION "gated_activation" /* these two since minor version 2 */
#define RT_OP_GATED_ACTIVATION_BACKWARD "gated_activation_backward"
/* Reductions */
#define RT_OP_REDUCE "reduce"
#define RT_OP_SQUARE_SUM "square_sum"
#define RT_OP_CLIP_SCALE "clip_scale"
#define RT_OP_LOSS_SCALE "loss_scale"
/* Softmax and losses */
#define RT_OP_SOFTMAX "softmax"
#define RT_OP_SOFTMAX_BACKWARD "softmax_backward"
#define RT_OP_LOG_SOFTMAX "log_softmax"
#define RT_OP_LOG_SOFTMAX_BACKWARD "log_softmax_backward"
#define RT_OP_CROSS_ENTROPY "cross_entropy"
#define RT_OP_CROSS_ENTROPY_BACKWARD "cross_entropy_backward"
/* Since minor version 1 */
#define RT_OP_CROSS_ENTROPY_WITH_GRADIENT "cross_entropy_with_gradient"
#define RT_OP_CROSS_ENTROPY_STATISTICS "cross_entropy_statistics"
#define RT_OP_CROSS_ENTROPY_MERGE "cross_entropy_merge"
#define RT_OP_CROSS_ENTROPY_BACKWARD_APPLY "cross_entropy_backward_apply"
#define RT_OP_MEAN_SQUARED_ERROR "mean_squared_error"
#define RT_OP_MEAN_SQUARED_ERROR_BACKWARD "mean_squared_error_backward"
#define RT_OP_CORRECT_COUNT "correct_count"
/* Normalisation */
#define RT_OP_BATCH_NORM "batch_norm"
#define RT_OP_BATCH_NORM_INFERENCE "batch_norm_inference"
#define RT_OP_BATCH_NORM_BACKWARD "batch_norm_backward"
#define RT_OP_BATCH_NORM_STATISTICS "batch_norm_statistics"
#define RT_OP_BATCH_NORM_MERGE "batch_norm_merge"
#define RT_OP_BATCH_NORM_APPLY "batch_norm_apply"
#define RT_OP_BATCH_NORM_BACKWARD_STATISTICS "batch_norm_backward_statistics"
#define RT_OP_BATCH_NORM_BACKWARD_APPLY "batch_norm_backward_apply"
#define RT_OP_LAYER_NORM "layer_norm"
#define RT_OP_LAYER_NORM_BACKWARD "layer_norm_backward"
#define RT_OP_RMS_NORM "rms_norm" /* these two since minor version 2 */
#define RT_OP_RMS_NORM_BACKWARD "rms_norm_backward"
/* Attention */
#define RT_OP_ATTENTION "attention"
#define RT_OP_ATTENTION_BACKWARD "attention_backward"
#define RT_OP_ROTARY "rotary" /* since minor version 2 */
/* Since minor version 2 */
#define RT_OP_DOT_PRODUCT_ATTENTION "dot_product_attention"
#define RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD "dot_product_attention_backward"
/* Look-up and data movement */
#define RT_OP_EMBEDDING "embedding"
#define RT_OP_EMBEDDING_BACKWARD "embedding_backward"
#define RT_OP_TRANSPOSE "transpose"
#define RT_OP_CONCAT "concat"
#define RT_OP_SLICE "slice"
#define RT_OP_PAD "pad"
#define RT_OP_CAST "cast"
#define RT_OP_COPY "copy"
#define RT_OP_FILL "fill"
/* Optimizers, in place */
#define RT_OP_SGD "sgd"
#define RT_OP_ADAMW "adamw"

/* Values of attribute "function" of activation, activation_backward; of rt_post_op.function */
#define RT_ACTIVATION_RELU 1
#define RT_ACTIVATION_GELU 2      /* x * Phi(x), with Phi computed by erf */
#define RT_ACTIVATION_GELU_TANH 3 /* the approximation of gelu that uses tanh */
#define RT_ACTIVATION_TANH 4
#define RT_ACTIVATION_SIGMOID 5
/* Since minor version 1, and for activation alone: plugins refuse them in activation_backward and
 * as post-operations. */
#define RT_ACTIVATION_EXP 6
#define RT_ACTIVATION_LOG 7 /* the natural logarithm */
#define RT_ACTIVATION_SQRT 8
#define RT_ACTIVATION_RECIPROCAL 9 /* 1 / x */
/* Since minor version 2, and for gated_activation and its gradient alone. */
#define RT_ACTIVATION_SILU 10 /* x * sigmoid(x) */
/* Since minor version 2, and for activation alone, as those of minor version 1. */
#define RT_ACTIVATION_SIN 11
#define RT_ACTIVATION_COS 12
#define RT_ACTIVATION_FLOOR 13 /* the largest whole number that is not larger than x */

/* Values of attribute "function" of reduce */
#define RT_REDUCE_SUM 1
#define RT_REDUCE_MEAN 2
#define RT_REDUCE_MAX 3

/* Names of the attributes. I: integer, N: number. A default value is in brackets; attributes
 * without one are mandatory. */
#define RT_ATTR_TRANSPOSE_A "transpose_a"             /* I [0] matmul */
#define RT_ATTR_TRANSPOSE_B "transpose_b"             /* I [0] matmul */
#define RT_ATTR_STRIDE_H "stride_h"                   /* I [1] convolution, pooling */
#define RT_ATTR_STRIDE_W "stride_w"                   /* I [1] */
#define RT_ATTR_PAD_TOP "pad_top"                     /* I [0] */
#define RT_ATTR_PAD_BOTTOM "pad_bottom"               /* I [0] */
#define RT_ATTR_PAD_LEFT "pad_left"                   /* I [0] */
#define RT_ATTR_PAD_RIGHT "pad_right"                 /* I [0] */
#define RT_ATTR_DILATION_H "dilation_h"               /* I [1] convolution; 1: no gaps */
#define RT_ATTR_DILATION_W "dilation_w"               /* I [1] */
#define RT_ATTR_GROUPS "groups"                       /* I [1] convolution */
#define RT_ATTR_KERNEL_H "kernel_h"                   /* I pooling */
#define RT_ATTR_KERNEL_W "kernel_w"                   /* I pooling */
#define RT_ATTR_COUNT_INCLUDE_PAD "count_include_pad" /* I [1] avg_pool2d */
#define RT_ATTR_AVERAGE "average"                     /* I conv2d_pool2d: 1 mean, 0 maximum */
#define RT_ATTR_FUNCTION "function"                   /* I activation, reduce; [0] conv2d_pool2d */
#define RT_ATTR_ALPHA "alpha"                         /* N [1] scale */
#define RT_ATTR_BETA "beta"                           /* N [0] scale */
#define RT_ATTR_VALUE "value"                         /* N [0] fill */
#define RT_ATTR_AXES "axes"       /* I reduce: mask with bit 1 << axis for every reduced axis */
#define RT_ATTR_HEADS "heads"     /* I attention: of the queries; rotary */
#define RT_ATTR_CAUSAL "causal"   /* I [0] attention */
#define RT_ATTR_INVERSE "inverse" /* I [0] rotary */
/* These four since minor version 2, for dot_product_attention alone. */
#define RT_ATTR_KEY_HEADS "key_heads"   /* I [0: heads] of keys and values; divides `heads` */
#define RT_ATTR_WINDOW "window"         /* I [0: no limit] the number of keys that a query sees */
#define RT_ATTR_SCALE "scale"           /* N [0: 1 / sqrt(columns of a head)] of the scores */
#define RT_ATTR_FIRST_HEAD "first_head" /* I [0] the number of the first head, for dropout */
#define RT_ATTR_AXIS "axis"             /* I concat, slice, pad */
#define RT_ATTR_START "start"           /* I [0] slice, pad */
#define RT_ATTR_PERMUTATION \
  "permutation"                     /* I transpose: bits 4i..4i+3: input axis of output axis i */
#define RT_ATTR_EPSILON "epsilon"   /* N normalisations, adamw */
#define RT_ATTR_MOMENTUM "momentum" /* N batch_norm, batch_norm_merge [0.1], sgd [0] */
#define RT_ATTR_PROBABILITY "probability"     /* N dropout; [0] attention */
#define RT_ATTR_SEED "seed"                   /* I dropout; [0] attention */
#define RT_ATTR_STREAM "stream"               /* I dropout; [0] attention: the layer's id */
#define RT_ATTR_COLUMNS "columns"             /* I [0: x is no slice] dropout: columns of x */
#define RT_ATTR_WHOLE_COLUMNS "whole_columns" /* I [columns] dropout: columns before slicing */
#define RT_ATTR_FIRST_COLUMN "first_column"   /* I [0] dropout: index of the first column of x */
#define RT_ATTR_FIRST_ROW "first_row"         /* I [-1: whole table] embedding: table's first row */
#define RT_ATTR_FIRST_CLASS "first_class"     /* I [0] cross_entropy_statistics, _backward_apply */
#define RT_ATTR_NESTEROV "nesterov"           /* I [0] sgd */
#define RT_ATTR_WEIGHT_DECAY "weight_decay"   /* N [0] sgd, adamw */
#define RT_ATTR_BETA1 "beta1"                 /* N adamw */
#define RT_ATTR_BETA2 "beta2"                 /* N adamw */
#define RT_ATTR_MAX_NORM "max_norm"           /* N clip_scale; loss_scale [0: no clipping] */

/* The constants of loss_scale: the first scale, the number of good steps after which the scale
 * doubles, and its bounds. */
#define RT_LOSS_SCALE_INITIAL 65536.0
#define RT_LOSS_SCALE_INTERVAL 2000
#define RT_LOSS_SCALE_LARGEST 16777216.0 /* 2^24 */
#define RT_LOSS_SCALE_SMALLEST (1.0 / 16777216.0)

#endif /* RT_OPERATIONS_H_ */
