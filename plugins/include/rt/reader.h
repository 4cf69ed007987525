/* Optional table of a plugin that reads data sets. Interface "rt.reader", version 1. A plugin may
 * offer this table alone. A format with the name `text` of a plugin with the name `libsvm` is used
 * with dataset.format = "libsvm.text".
 *
 * A sample consists of features and a target. Its values arrive in the host's memory in the
 * canonical layout: dense, row-major, images as [height, width, channels]. The host takes samples
 * in any order; it shuffles, splits, normalises, augments and makes batches of them, so a reader
 * does none of that.
 *
 * Threads: `formats` and `open` may be called from any thread. `info` and `read` of one data set
 * may be called by several threads at the same time. The host calls `close` once, after every other
 * call for the data set has returned. */
#ifndef RT_READER_H_
#define RT_READER_H_

#include "rt/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and version for rt_plugin.get_interface. */
#define RT_INTERFACE_READER "rt.reader"
#define RT_READER_API_VERSION 1

/* An open data set, one split. Equivalent to: a map-style torch.utils.data.Dataset. */
typedef struct rt_dataset rt_dataset;

/* Kinds of targets. */
#define RT_TARGET_LABELS 1  /* class numbers 0..classes-1, as int32 */
#define RT_TARGET_NUMBERS 2 /* float32, for regression */

/* Splits of a data set. */
#define RT_SPLIT_TRAINING 1
#define RT_SPLIT_VALIDATION 2

/* rt_reader_format.flags: one path holds both splits. Unless the user gives the validation samples
 * another way, the host opens the path a second time, for RT_SPLIT_VALIDATION; `open` may then
 * answer RT_ERROR_UNAVAILABLE if there are none. */
#define RT_READER_BOTH_SPLITS 0x1u

/* A format of the plugin. The plugin owns the struct, which lives as long as the instance. */
typedef struct rt_reader_format {
  uint32_t size;
  uint32_t flags;          /* RT_READER_* */
  const char* name;        /* [a-z][a-z0-9_]* */
  const char* description; /* one line, shown by `runtime plugins info` */
  /* The keys of [dataset.<plugin>] that the format understands; the host refuses all others. NULL
   * if option_count is 0. */
  const rt_option_spec* const* options;
  uint32_t option_count; /* elements of `options` */
  uint32_t reserved;
} rt_reader_format;
#define RT_READER_FORMAT_SIZE_V1 40

/* What a run wants of a data set. */
typedef struct rt_dataset_request {
  uint32_t size;
  int32_t split;    /* RT_SPLIT_* */
  const char* path; /* dataset.path, or dataset.validation_path: a file or a folder */
  int32_t target;   /* RT_TARGET_* that the model is trained with; a reader refuses the other one */
  int32_t rank;     /* of `shape` */
  int64_t shape[RT_MAX_RANK]; /* what the model takes: [features] or [height, width, channels] */
  /* For RT_SPLIT_VALIDATION, the open training samples of the same run, whose numbers of classes,
   * vocabularies and so on hold for the validation samples too; else NULL. The host keeps them open
   * until it has closed the validation samples. */
  const rt_dataset* training;
  const rt_option* const* options; /* [dataset.<plugin>], the keys of this format */
  uint32_t option_count;           /* elements of `options` */
  uint32_t reserved;
} rt_dataset_request;
#define RT_DATASET_REQUEST_SIZE_V1 112

/* A further input of each sample, beside its features, which a model reads by its name. The plugin
 * owns the struct, which lives as long as the data set. Since minor version 2. Equivalent to:
 * another entry of the dictionary that a torch.utils.data.Dataset returns. */
typedef struct rt_sample_input {
  uint32_t size;
  rt_dtype dtype;   /* RT_FLOAT32 or RT_INT32 */
  const char* name; /* [a-z][a-z0-9_]*, another one for each input */
  int32_t least;    /* RT_INT32: no sample has a smaller number; else 0 */
  int32_t most;     /* RT_INT32: no sample has a larger number; else 0 */
  int32_t rank;     /* of `shape`, at least 1 */
  uint32_t reserved;
  int64_t shape[RT_MAX_RANK]; /* of one sample; [1] is one number */
} rt_sample_input;
#define RT_SAMPLE_INPUT_SIZE_V1 96

/* What is known of an open data set; it never changes. Every sample has the same shape. */
typedef struct rt_dataset_info {
  uint32_t size;
  rt_dtype feature_dtype;     /* RT_FLOAT32, or RT_UINT8, of which the host makes x / 255 */
  int64_t samples;            /* at least 1 */
  int32_t target;             /* RT_TARGET_* */
  int32_t rank;               /* of `shape`: 1 or 3 */
  int64_t shape[RT_MAX_RANK]; /* of one sample: [features] or [height, width, channels] */
  int64_t classes;            /* RT_TARGET_LABELS: labels are below it; else 0 */
  /* Numbers in the target of one sample: 1 for classification. A language model has as many labels
   * as features: the token that follows each one. Features are then token ids below `classes`. */
  int64_t target_count;
  char description[128]; /* like "LIBSVM train.txt"; "": the host says the path */
  /* Since minor version 2: the further inputs of a sample. Splits of one data set have the same.
   * NULL if input_count is 0. */
  const rt_sample_input* const* inputs;
  uint32_t input_count; /* elements of `inputs` */
  uint32_t reserved;
} rt_dataset_info;
#define RT_DATASET_INFO_SIZE_V1 232

/* Where `read` writes. */
typedef struct rt_samples {
  uint32_t size;
  uint32_t reserved;
  const int64_t* indices; /* `count` indices of samples, from 0, in any order, also repeated */
  uint64_t count;         /* elements of `indices` */
  void* features;         /* [count, shape...] of feature_dtype; NULL: not wanted */
  uint64_t feature_bytes; /* size of `features`, which `read` must not exceed */
  void* targets;          /* [count, target_count] of int32 or float32; NULL: not wanted */
  uint64_t target_bytes;  /* size of `targets` */
  /* Since minor version 2, where the data set has such inputs: for each of them an array
   * [count, shape...] of its dtype, or NULL if it is not wanted, and the bytes of each array. */
  void* const* inputs;
  const uint64_t* input_bytes;
  uint32_t input_count; /* elements of `inputs` and `input_bytes`: those of rt_dataset_info, or 0 */
  uint32_t reserved_2;
} rt_samples;
#define RT_SAMPLES_SIZE_V1 56

/* The functions of the interface. The plugin owns the table; no slot may be NULL. */
typedef struct rt_reader_api {
  uint32_t size;
  uint32_t version; /* RT_READER_API_VERSION */

  /* Returns an array of `*count` pointers to the formats. The plugin owns the array. Does not open
   * files: the host also calls it where it only lists what there is. */
  const rt_reader_format* const* (*formats)(void* self, uint32_t* count);

  /* Opens one split; the caller closes the result. May read all files, or only an index of them. An
   * error's message names the file and the place in it, what is there and what is expected. */
  rt_status (*open)(void* self, const char* format, const rt_dataset_request* request,
                    rt_dataset** dataset, rt_error* error);
  /* Fills what is known of the data set. */
  rt_status (*info)(const rt_dataset* dataset, rt_dataset_info* info, rt_error* error);
  /* Writes the samples of `samples->indices`, and sets *filled to their number: `count`, or the
   * call fails. Any thread; prefetching threads call it while others compute. */
  rt_status (*read)(const rt_dataset* dataset, const rt_samples* samples, uint64_t* filled,
                    rt_error* error);
  /* Frees the data set. */
  void (*close)(rt_dataset* dataset);
} rt_reader_api;
#define RT_READER_API_SIZE_V1 48

#ifdef __cplusplus
}
#endif

#endif /* RT_READER_H_ */
