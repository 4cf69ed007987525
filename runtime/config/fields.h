// Which member of Config holds which key of the schema. Reading, writing and the tests all walk
// this one list.
#ifndef RUNTIME_CONFIG_FIELDS_H_
#define RUNTIME_CONFIG_FIELDS_H_

#include "runtime/config/config.h"

namespace runtime::config {

// The visit functions call field(section, key, member) for each key, in the order of the schema;
// visit_fields() visits all of them. `C` is Config or const Config. device.options and comm.options
// have no fixed keys and are left out.
template <class C, class Field>
void visit_model(C& c, Field&& field) {
  field("model", "preset", c.model.preset);
  field("model", "input", c.model.input);
  field("model", "layers", c.model.layers);
  field("model", "outputs", c.model.outputs);
  field("model", "dropout", c.model.dropout);
  field("model", "init", c.model.init);
  field("model", "init_from", c.model.init_from);
  field("model", "init_except", c.model.init_except);
  field("model", "freeze", c.model.freeze);
}

template <class C, class Field>
void visit_dataset(C& c, Field&& field) {
  field("dataset", "name", c.dataset.name);
  field("dataset", "format", c.dataset.format);
  field("dataset", "path", c.dataset.path);
  field("dataset", "target_path", c.dataset.target_path);
  field("dataset", "validation_path", c.dataset.validation_path);
  field("dataset", "validation_target_path", c.dataset.validation_target_path);
  field("dataset", "features", c.dataset.features);
  field("dataset", "target", c.dataset.target);
  field("dataset", "task", c.dataset.task);
  field("dataset", "tokenizer", c.dataset.tokenizer);
  field("dataset", "tokenizer_path", c.dataset.tokenizer_path);
  field("dataset", "token_type", c.dataset.token_type);
  field("dataset", "stride", c.dataset.stride);
  field("dataset", "shuffle", c.dataset.shuffle);
  field("dataset", "last_batch", c.dataset.last_batch);
  field("dataset", "validation_split", c.dataset.validation_split);
  field("dataset", "prefetch", c.dataset.prefetch);
  field("dataset", "samples", c.dataset.samples);
  field("dataset", "classes", c.dataset.classes);
  field("dataset", "resize", c.dataset.resize);
  field("dataset", "resize_shorter", c.dataset.resize_shorter);
  field("dataset", "random_crop", c.dataset.random_crop);
  field("dataset", "random_flip", c.dataset.random_flip);
  field("dataset", "mean", c.dataset.mean);
  field("dataset", "std", c.dataset.std);
  field("dataset", "standardize", c.dataset.standardize);
}

template <class C, class Field>
void visit_training(C& c, Field&& field) {
  field("training", "global_batch_size", c.training.global_batch_size);
  field("training", "batch_size_per_rank", c.training.batch_size_per_rank);
  field("training", "micro_batch_size", c.training.micro_batch_size);
  field("training", "epochs", c.training.epochs);
  field("training", "steps", c.training.steps);
  field("training", "dtype", c.training.dtype);
  field("training", "mixed_precision", c.training.mixed_precision);
  field("training", "max_norm", c.training.max_norm);
  field("training", "recompute", c.training.recompute);
  field("training", "loss", c.training.loss);
  field("optimizer", "name", c.optimizer.name);
  field("optimizer", "lr", c.optimizer.lr);
  field("optimizer", "momentum", c.optimizer.momentum);
  field("optimizer", "nesterov", c.optimizer.nesterov);
  field("optimizer", "betas", c.optimizer.betas);
  field("optimizer", "eps", c.optimizer.eps);
  field("optimizer", "weight_decay", c.optimizer.weight_decay);
  field("optimizer", "weight_decay_on", c.optimizer.weight_decay_on);
  field("lr_scheduler", "name", c.lr_scheduler.name);
  field("lr_scheduler", "step_size", c.lr_scheduler.step_size);
  field("lr_scheduler", "milestones", c.lr_scheduler.milestones);
  field("lr_scheduler", "gamma", c.lr_scheduler.gamma);
  field("lr_scheduler", "decay_steps", c.lr_scheduler.decay_steps);
  field("lr_scheduler", "min_lr", c.lr_scheduler.min_lr);
  field("lr_scheduler", "warmup_steps", c.lr_scheduler.warmup_steps);
  field("lr_scheduler", "scale_with_batch", c.lr_scheduler.scale_with_batch);
  field("lr_scheduler", "reference_batch_size", c.lr_scheduler.reference_batch_size);
}

template <class C, class Field>
void visit_ranks(C& c, Field&& field) {
  field("parallelism", "data", c.parallelism.data);
  field("parallelism", "tensor", c.parallelism.tensor);
  field("parallelism", "pipeline", c.parallelism.pipeline);
  field("parallelism", "pipeline_schedule", c.parallelism.pipeline_schedule);
  field("parallelism", "microbatches", c.parallelism.microbatches);
  field("parallelism", "zero_stage", c.parallelism.zero_stage);
  field("parallelism", "sync_batch_norm", c.parallelism.sync_batch_norm);
  field("parallelism", "update", c.parallelism.update);
  field("parallelism", "max_staleness", c.parallelism.max_staleness);
  field("parallelism", "share", c.parallelism.share);
  field("parallelism", "search", c.parallelism.search);
  field("comm", "backend", c.comm.backend);
  field("comm", "rendezvous", c.comm.rendezvous);
  field("comm", "rendezvous_address", c.comm.rendezvous_address);
  field("comm", "bucket_mb", c.comm.bucket_mb);
  field("comm", "overlap", c.comm.overlap);
  field("comm", "interface", c.comm.interface);
  field("comm", "init_timeout_s", c.comm.init_timeout_s);
  field("comm", "timeout_s", c.comm.timeout_s);
  field("comm", "save_timeout_s", c.comm.save_timeout_s);
  field("comm", "check", c.comm.check);
  field("launch", "ranks", c.launch.ranks);
  field("launch", "devices", c.launch.devices);
  field("launch", "max_restarts", c.launch.max_restarts);
  field("launch", "mpiexec", c.launch.mpiexec);
}

template <class C, class Field>
void visit_fields(C& c, Field&& field) {
  field("job", "description", c.job.description);
  field("job", "dump_folder", c.job.dump_folder);
  field("job", "overwrite", c.job.overwrite);
  field("plugins", "path", c.plugins.path);
  field("plugins", "require", c.plugins.require);
  field("device", "backend", c.device.backend);
  field("device", "index", c.device.index);
  field("device", "threads", c.device.threads);
  field("device", "tune", c.device.tune);
  field("device", "graph_capture", c.device.graph_capture);
  visit_model(c, field);
  visit_dataset(c, field);
  visit_training(c, field);
  visit_ranks(c, field);
  field("validation", "every_epochs", c.validation.every_epochs);
  field("validation", "every_steps", c.validation.every_steps);
  field("metrics", "log_every_steps", c.metrics.log_every_steps);
  field("metrics", "progress", c.metrics.progress);
  field("metrics", "jsonl", c.metrics.jsonl);
  field("debug", "seed", c.debug.seed);
  field("debug", "deterministic", c.debug.deterministic);
  field("debug", "virtual_shards", c.debug.virtual_shards);
  field("debug", "check_replicas_every", c.debug.check_replicas_every);
  field("debug", "nan", c.debug.nan);
}

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_FIELDS_H_
