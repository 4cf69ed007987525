// Rules about several keys, section by section, each with a remedy in its message.
#include "runtime/config/validate.h"

#include <algorithm>
#include <map>

#include "plugins/host/nearest.h"
#include "runtime/config/choices.h"
#include "runtime/config/format.h"
#include "runtime/config/keys_of_choices.h"
#include "runtime/config/metrics.h"
#include "runtime/config/read.h"

namespace runtime::config {
namespace {

constexpr int64_t kMostProfiledSteps = 1000;
constexpr int64_t kMostRanks = 1 << 20;

// The base of the rules reads a configuration and refuses it with the place of a key.
class Checks {
 public:
  Checks(const Config& config, const Value& root) : config_(config), root_(root) {}

 protected:
  // A section, or a table in a list of a section.
  struct Place {
    std::string path;
    const Value* table;  // nullptr: the file does not have it
  };

  Place section(const std::string& name) const {
    const Member* const member = root_.find(name);
    return {name, member == nullptr ? nullptr : &member->value};
  }

  void require(bool condition, const Place& place, const std::string& key,
               const std::string& message) const {
    if (condition) return;
    const Member* member = place.table == nullptr ? nullptr : place.table->find(key);
    const Position& position = member != nullptr        ? member->value.position
                               : place.table != nullptr ? place.table->position
                                                        : root_.position;
    fail(position, place.path + "." + key, message);
  }
  void require(bool condition, const std::string& section_name, const std::string& key,
               const std::string& message) const {
    require(condition, section(section_name), key, message);
  }

  const Config& config_;
  const Value& root_;
};

// The rules about one model and its data.
class Rules : Checks {
 public:
  using Checks::Checks;

  void check() const {
    check_model();
    check_data_set();
    check_reader();
    check_files();
    check_text();
    check_images();
    check_loss();
    check_mixed_precision();
    check_optimizer();
    check_clipping();
    check_schedule();
    check_validation();
    check_metrics();
    check_monitor();
    check_profiling();
    check_batch();
  }

 private:
  // Checks the keys that only some choices use: the chosen one, `name`, uses what is given, has
  // what it needs, and its numbers are in its own range. `values` are those of the section;
  // `chosen` is null for what a plugin brings. Another row that `fits` and uses a key is named as a
  // remedy.
  template <class S, class Row, class Fits>
  void check_choice(const std::vector<Row>& rows, const Row* chosen, S values, const Place& place,
                    const std::string& key_name, const std::string& name, Fits fits) const {
    S defaults;
    for (const KeyOf<S>& key : keys_of_choices(rows)) {
      const Key& declared = key.declared;
      const bool given = default_text(key.field(values), declared.type) !=
                         default_text(key.field(defaults), declared.type);
      const auto* own = chosen == nullptr ? nullptr : find_declared(chosen->keys, declared.name);
      const auto user = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
        return fits(row) && find_declared(row.keys, declared.name) != nullptr;
      });
      const std::string remedy =
          user == rows.end() ? "" : ", or set " + key_name + " = \"" + user->name + "\"";
      require(!given || own != nullptr || key.is_tolerated, place, declared.name,
              "is not used by " + name + "; remove it" + remedy);
      if (own == nullptr) continue;
      const std::string by = key_name + " = \"" + name + "\"";
      require(given || own->needs.empty(), place, declared.name,
              "missing: " + by + " needs " + own->needs);
      check_range(own->declared, key.field(values), place, by);
    }
  }

  void check_range(const Key& key, const Field& field, const Place& place,
                   const std::string& by) const {
    const auto* const number = std::get_if<double*>(&field);
    require(number == nullptr || key.range.contains(**number), place, key.name,
            number == nullptr ? ""
                              : "got " + toml_number(**number) + ", expected " + key.range.text() +
                                    " with " + by);
  }

  void check_model() const {
    const Model& model = config_.model;
    require(!model.layers.empty(), "model", "layers",
            "missing: the model has no layers; give a list of layers or a preset");
    require(!model.input.empty() && model.input.size() <= 3, "model", "input",
            "got " + std::to_string(model.input.size()) +
                " numbers, expected [channels, height, width], [features] or [length]");
    require(expanded_size(model.layers) <= kMaxLayers, "model", "layers",
            "too many layers: with every repeat written out there are more than " +
                std::to_string(kMaxLayers) + "; repeat less");
    require(model.init_except.empty() || !model.init_from.empty(), "model", "init_except",
            "is not used without init_from, the file whose names it leaves out; remove it");
    require(model.init_append.empty() || !model.init_from.empty(), "model", "init_append",
            "is not used without init_from, the file to whose tables rows are added; remove it");
  }

  void check_data_set() const {
    const Dataset& data = config_.dataset;
    require(!data.name.empty() || !data.format.empty(), "dataset", "name",
            "missing: no data set is given; set name, or format and path");
    const Format* const format = format_of(data);
    const bool files = format == nullptr || !format->path.empty();
    require(!files || data.format.empty() || !data.path.empty(), "dataset", "path",
            "missing: format = \"" + data.format + "\" needs the path of its files");
    require(
        files || data.path.empty(), "dataset", "path",
        "got " + toml_string(shorten(data.path)) + ", but synthetic data has no files; remove it");
    const bool by_name = data.format.empty();
    check_choice(formats(), format, data, section("dataset"), by_name ? "name" : "format",
                 by_name ? data.name : data.format, [&](const Format&) { return !by_name; });
    require(files || data.classes > 0 || is_regression(), "dataset", "classes",
            "missing: synthetic classification needs the number of classes, at least 1");
  }

  // A table of a plugin that reads no samples is a mistake, because the samples have one format.
  void check_reader() const {
    const Dataset& data = config_.dataset;
    for (const auto& [plugin, options] : data.options) {
      require(data.format.starts_with(plugin + "."), "dataset", plugin,
              "is a table of options for a format of the plugin " + plugin +
                  ", but the data set is " + toml_string(shorten(data.name + data.format)) +
                  "; remove it, or set format to \"" + plugin + ".<name>\"");
    }
  }

  void check_files() const {
    const Dataset& data = config_.dataset;
    require(data.target_path.empty() || data.validation_path.empty() ||
                !data.validation_target_path.empty(),
            "dataset", "validation_target_path",
            "missing: validation_path needs its own file of targets, as path has");
    const Format* const format = format_of(data);
    const bool only_classes = data.format.empty() && !format->path.empty();
    require(!is_regression() || !only_classes, "dataset", "task",
            "got \"regression\", but " + data.name + " holds classes");
    require(!data.standardize || (data.mean.empty() && data.std.empty()), "dataset", "standardize",
            "got true, but mean or std are given too; remove the one that is not meant");
  }

  void check_text() const {
    const Dataset& data = config_.dataset;
    const Format* const format = format_of(data);
    const bool by_format = format != nullptr && data.tokenizer.empty();
    const Tokenizer* const tokenizer =
        find_choice(tokenizers(), by_format ? format->tokenizer : data.tokenizer);
    require(format == nullptr || !format->ids || tokenizer == nullptr || !tokenizer->learns,
            "dataset", "tokenizer",
            "got " + toml_string(data.tokenizer) +
                ", but the characters of a file of tokens are not known; expected \"byte\", "
                "\"gpt2\", \"hf\" or \"\"");
    const bool folder = tokenizer != nullptr && !tokenizer->files.empty();
    require(folder || data.tokenizer_path.empty(), "dataset", "tokenizer_path",
            "is used by tokenizer = \"gpt2\" and \"hf\" only; remove it");
    require(!folder || !data.tokenizer_path.empty(), "dataset", "tokenizer_path",
            "missing: it must name " + (folder ? tokenizer->files : ""));
    const bool any_tokens = format == nullptr || format->path.empty();
    require(!task_of(data).language || any_tokens, "dataset", "task",
            "got " + toml_string(data.task) +
                ", which is for synthetic data and formats of plugins; remove it");
    const bool masked = task_of(data).masked;
    require(!masked || (format != nullptr && format->language), "dataset", "task",
            "got \"masked_token\", which is for the formats text and tokens; remove it");
    require(!masked || !data.mask_token.empty(), "dataset", "mask_token",
            "missing: task = \"masked_token\" needs the token that stands for a hidden one");
    require(masked || data.mask_token.empty(), "dataset", "mask_token",
            "is used by task = \"masked_token\" only; remove it");
    require(!masked || config_.training.sample_weights.empty(), "training", "sample_weights",
            "is not possible with dataset.task = \"masked_token\", where hidden tokens alone "
            "count; remove it");
    require(!is_language() || config_.model.input.size() == 1, "model", "input",
            "got " + std::to_string(config_.model.input.size()) +
                " numbers, expected [length]: the tokens that a language model sees at once");
  }

  void check_images() const {
    const Dataset& data = config_.dataset;
    require(data.mean.size() == data.std.size() || data.mean.empty() || data.std.empty(), "dataset",
            "std",
            "got " + std::to_string(data.std.size()) + " numbers, expected one per channel as in " +
                "mean, " + std::to_string(data.mean.size()));
    require(data.resize.empty() || data.resize.size() == 2, "dataset", "resize",
            "got " + std::to_string(data.resize.size()) + " number, expected [height, width]");
    require(data.resize_shorter == 0 || !data.resize.empty(), "dataset", "resize",
            "missing: resize_shorter needs the size that is cut from the centre");
  }

  void check_loss() const {
    const Training& training = config_.training;
    const bool classes = !is_regression();
    const Loss& loss = loss_of(training.loss, classes);
    require(loss.of_classes() == classes, "training", "loss",
            "got \"" + loss.name + "\", but dataset.task is \"" + config_.dataset.task +
                "\"; use \"auto\"");
    check_choice(losses(), &loss, training, section("training"), "loss", loss.name,
                 [&](const Loss& other) { return other.of_classes() == classes; });
    require(training.class_weights.empty() || training.label_smoothing == 0, "training",
            "class_weights", "is not possible with label_smoothing; remove one of them");
    require(training.ignore_label < 0 || is_language(), "training", "ignore_label",
            "is for language models, but the data set is none; remove it");
  }

  void check_mixed_precision() const {
    const Training& training = config_.training;
    require(!training.mixed() || training.bytes_per_weight() == 4, "training", "mixed_precision",
            "got \"" + training.mixed_precision + "\" with dtype = \"" + training.dtype +
                "\", but the weights beside 16-bit activations are float32; remove one of the two");
    require(!training.scales_loss() || !config_.parallelism.asynchronous(), "training",
            "mixed_precision",
            "got \"f16\" with parallelism.update = \"asynchronous\", where no rank sees the whole "
            "gradient and can tell that it overflowed; use \"bf16\"");
  }

  void check_optimizer() const {
    const Place optimizer = section("optimizer");
    require(config_.optimizer.average_decay == 0 || !config_.parallelism.asynchronous(), optimizer,
            "average_decay",
            "is not possible with parallelism.update = \"asynchronous\", where no rank has all "
            "weights after a step; set it to 0");
    check_rule(config_.optimizer, optimizer);
    for (size_t i = 0; i < config_.optimizer.groups.size(); ++i) {
      const OptimizerGroup& group = config_.optimizer.groups[i];
      const Place place = {"optimizer.group[" + std::to_string(i) + "]",
                           &optimizer.table->find("group")->value.items[i]};
      check_rule(group, place);
      require(!group.parameters.empty(), place, "parameters",
              "got an empty list, expected patterns of names of parameters");
      require(group.lr == config_.optimizer.lr || config_.optimizer.lr > 0, place, "lr",
              "got " + toml_number(group.lr) +
                  ", but optimizer.lr is 0, to which the schedule sets it in proportion; set "
                  "optimizer.lr above 0");
    }
  }

  void check_rule(const UpdateRule& rule, const Place& place) const {
    check_choice(optimizers(), find_choice(optimizers(), rule.name), rule, place, "name", rule.name,
                 [](const OptimizerRow&) { return true; });
    require(rule.betas.empty() || rule.betas.size() == 2, place, "betas",
            "got " + std::to_string(rule.betas.size()) + " numbers, expected 2");
    require(!rule.nesterov || rule.momentum > 0, place, "nesterov",
            "got true, but momentum is 0; set momentum above 0");
    require(!rule.nesterov || rule.dampening == 0, place, "nesterov",
            "got true, but dampening is " + toml_number(rule.dampening) +
                "; Nesterov's momentum has none, set it to 0");
    require(rule.dampening == 0 || rule.momentum > 0, place, "dampening",
            "got " + toml_number(rule.dampening) + ", but momentum is 0; set momentum above 0");
  }

  void check_schedule() const {
    const LrScheduler& schedule = config_.lr_scheduler;
    const Schedule& row = schedule_of(schedule);
    check_choice(schedules(), &row, schedule, section("lr_scheduler"), "name", schedule.name,
                 [](const Schedule&) { return true; });
    require(std::is_sorted(schedule.milestones.begin(), schedule.milestones.end()), "lr_scheduler",
            "milestones", "expected epochs in rising order");
    require(row.warms_up || schedule.warmup_steps == 0, "lr_scheduler", "warmup_steps",
            "is not used by " + schedule.name + ", which has warmup_share; remove it");
    require(!row.ends || schedule.decay_steps == 0 || schedule.decay_steps > schedule.warmup_steps,
            "lr_scheduler", "decay_steps",
            "got " + std::to_string(schedule.decay_steps) + ", expected more than warmup_steps, " +
                std::to_string(schedule.warmup_steps));
    require(schedule.min_lr <= config_.optimizer.lr, "lr_scheduler", "min_lr",
            "got " + toml_number(schedule.min_lr) + ", expected at most optimizer.lr, " +
                toml_number(config_.optimizer.lr));
  }

  void check_validation() const {
    const Validation& validation = config_.validation;
    const bool validates = validation.every_epochs > 0 || validation.every_steps > 0;
    const EarlyStopping& stopping = config_.early_stopping;
    require(stopping.patience == 0 || validates, "early_stopping", "patience",
            "needs validations; set validation.every_epochs or every_steps");
    const std::string& schedule = config_.lr_scheduler.name;
    const bool follows = schedule_of(config_.lr_scheduler).validates;
    require(!follows || validates, "lr_scheduler", "name",
            "got " + toml_string(schedule) +
                ", which needs validations; set validation.every_epochs or every_steps");
    require(!stopping.restore_best || config_.checkpoint.keep_best > 0, "early_stopping",
            "restore_best", "needs the best checkpoint; set checkpoint.keep_best = 1 or more");
    const bool asynchronous = config_.parallelism.asynchronous();
    require(
        !asynchronous || !follows, "lr_scheduler", "name",
        "got " + toml_string(schedule) + ", which parallelism.update = \"asynchronous\" has not");
  }

  void check_clipping() const {
    const Training& training = config_.training;
    require(training.max_value == 0 || training.max_norm == 0, "training", "max_value",
            "got " + toml_number(training.max_value) + ", but max_norm is " +
                toml_number(training.max_norm) + "; expected one of the two, set the other to 0");
    const bool asynchronous = config_.parallelism.asynchronous();
    for (const auto& [key, limit] : std::map<std::string, double>{
             {"max_norm", training.max_norm}, {"max_value", training.max_value}}) {
      require(!asynchronous || limit == 0, "training", key,
              "is not possible with parallelism.update = \"asynchronous\": no rank sees the whole "
              "gradient; set it to 0");
    }
  }

  void check_metrics() const {
    const std::vector<std::string>& names = config_.validation.metrics;
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string got = "got " + toml_string(shorten(names[i]));
      const Metric* const metric = find_metric(names[i]);
      std::vector<std::string> known;
      for (const Metric& m : metrics()) known.push_back(m.example.empty() ? m.name : m.example);
      require(
          metric != nullptr, "validation", "metrics",
          got + plugins::host::suggestion(names[i], known) + " (top_k with any k of 2 or more)");
      require(std::count(names.begin(), names.end(), names[i]) == 1, "validation", "metrics",
              got + " twice; remove one");
      check_fits_task(*metric, "metrics", got);
      require(!metric->keeps_scores || !is_language(), "validation", "metrics",
              got + ", which needs a score of every class for every token; use perplexity");
      if (metric->of_cross_entropy) check_of_cross_entropy(got);
    }
  }

  void check_of_cross_entropy(const std::string& got) const {
    const Training& training = config_.training;
    const auto need = [&](bool condition, const std::string& message) {
      require(condition, "validation", "metrics", got + message);
    };
    need(is_language(),
         ", which is for language models, but the data set is none; use accuracy or f1");
    need(loss_of(training.loss, true).of_classes(),
         ", which follows from the loss cross_entropy, but training.loss is \"" + training.loss +
             "\"; remove it");
    need(
        training.class_weights.empty(),
        ", which weighs all tokens alike, but training.class_weights is given; remove one of them");
    need(training.label_smoothing == 0,
         ", which is the exponential of the cross entropy to the labels, but "
         "training.label_smoothing is above 0; remove one of them");
  }

  bool is_regression() const { return config::is_regression(config_.dataset); }
  bool is_language() const { return config::is_language(config_.dataset); }

  void check_fits_task(const Metric& metric, const std::string& key, const std::string& got) const {
    require(metric.regression == is_regression(), "validation", key,
            got + ", which compares " + (metric.regression ? "numbers" : "classes") +
                ", but dataset.task is \"" + config_.dataset.task + "\"; use " +
                (is_regression() ? "mse, mae or r2"
                                 : "accuracy, f1, auroc or another one for classes"));
  }

  void check_monitor() const {
    const Validation& validation = config_.validation;
    const std::string& monitor = validation.monitor;
    if (is_loss(monitor)) return;
    const std::string got = "got " + toml_string(shorten(monitor));
    const Metric* const metric = find_metric(monitor);
    std::vector<std::string> known = {"loss"};
    for (const Metric& m : metrics()) {
      if (m.always) known.push_back(m.name);
    }
    known.insert(known.end(), validation.metrics.begin(), validation.metrics.end());
    require(metric != nullptr, "validation", "monitor",
            got + plugins::host::suggestion(monitor, known));
    require(!metric->table, "validation", "monitor",
            got + ", which is a table and no number; use accuracy, f1 or another metric");
    check_fits_task(*metric, "monitor", got);
    const auto& names = validation.metrics;
    require(metric->always || std::count(names.begin(), names.end(), monitor) > 0, "validation",
            "monitor", got + ", which is not computed; add it to validation.metrics");
  }

  void check_profiling() const {
    const Profiling& profiling = config_.profiling;
    const int64_t steps = profiling.active * profiling.repeat;
    require(steps <= kMostProfiledSteps, "profiling", "repeat",
            "got " + std::to_string(profiling.repeat) + " cycles of " +
                std::to_string(profiling.active) + " active steps, which are " +
                std::to_string(steps) + " steps in memory; expected at most " +
                std::to_string(kMostProfiledSteps) + "; lower active or repeat");
  }

  void check_batch() const {
    const Training& training = config_.training;
    require(training.global_batch_size > 0 || training.batch_size_per_rank > 0, "training",
            "global_batch_size",
            "missing: it has no default; expected integer, at least 1, or batch_size_per_rank");
    const LrScheduler& schedule = config_.lr_scheduler;
    const bool scales = schedule.scale_with_batch != LrScheduler().scale_with_batch;
    require(!scales || schedule.reference_batch_size > 0, "lr_scheduler", "reference_batch_size",
            "missing: scale_with_batch needs the batch size that optimizer.lr was chosen for");
  }
};

// The rules about several ranks.
class RankRules : Checks {
 public:
  using Checks::Checks;

  void check() const {
    check_parallelism();
    check_zero();
    check_launch();
    check_cluster();
  }

 private:
  void check_parallelism() const {
    const Parallelism& parallelism = config_.parallelism;
    const bool asynchronous = parallelism.asynchronous();
    require(parallelism.data != 0, "parallelism", "data", "got 0, expected -1 or at least 1");
    require(!parallelism.search ||
                (parallelism.data == -1 && parallelism.tensor == 1 && parallelism.pipeline == 1),
            "parallelism", "search",
            "got true, but data, tensor or pipeline is given, which it chooses; remove one or the "
            "other");
    require(!parallelism.search || !asynchronous, "parallelism", "search",
            "is not used by update = \"asynchronous\", which knows data-parallel ranks only; "
            "remove it");
    require(asynchronous || parallelism.max_staleness == 0, "parallelism", "max_staleness",
            "is not used by update = \"synchronous\"; remove it, or set update = \"asynchronous\"");
    require(!asynchronous || parallelism.zero_stage == 0, "parallelism", "zero_stage",
            "is not used by update = \"asynchronous\", whose ranks each keep the optimizer state "
            "of their own range already; remove it");
    require(!asynchronous || !parallelism.sync_batch_norm, "parallelism", "sync_batch_norm",
            "got true, but with update = \"asynchronous\" ranks do not wait for each other");
    require(
        !asynchronous || config_.validation.every_steps == 0, "validation", "every_steps",
        "is not possible with parallelism.update = \"asynchronous\", whose ranks meet at the ends "
        "of epochs only; use every_epochs");
    require(!asynchronous || !parallelism.by_speed(), "parallelism", "share",
            "is not used by update = \"asynchronous\", where a faster rank computes more work "
            "items already; remove it");
    const Debug& debug = config_.debug;
    require(!debug.deterministic || !asynchronous, "debug", "deterministic",
            "got true, but parallelism.update = \"asynchronous\" depends on timing");
    require(!debug.deterministic || !parallelism.by_speed(), "parallelism", "share",
            "got \"by_speed\", but debug.deterministic needs shares that do not depend on timing");
    require(
        !debug.deterministic || config_.training.micro_batch_size == 0, "training",
        "micro_batch_size",
        "got " + std::to_string(config_.training.micro_batch_size) +
            ", but debug.deterministic cuts the batch itself; set debug.virtual_shards instead");
    require(
        parallelism.pipeline == 1 || config_.training.micro_batch_size == 0, "training",
        "micro_batch_size",
        "got " + std::to_string(config_.training.micro_batch_size) +
            ", but parallelism.pipeline is " + std::to_string(parallelism.pipeline) +
            ", which cuts the batch itself; set parallelism.microbatches, their number, instead");
    require(!debug.deterministic || parallelism.zero_stage == 0 || config_.training.max_norm == 0,
            "training", "max_norm",
            "with zero_stage = " + std::to_string(parallelism.zero_stage) +
                " the norm is added in an order that depends on the ranks, but "
                "debug.deterministic is true; set zero_stage = 0");
    const bool refused = parallelism_says_no_sync_batch_norm() && debug.deterministic &&
                         has_layer(config_.model.layers, "batch_norm");
    require(!refused, "parallelism", "sync_batch_norm",
            "got false, but debug.deterministic promises the same bits on any number of ranks, and "
            "batch_norm over each rank's own share has other statistics on each number; remove the "
            "key (deterministic implies it), or set debug.deterministic = false");
  }

  void check_launch() const {
    const Launch& launch = config_.launch;
    require(launch.min_ranks <= launch.ranks, "launch", "min_ranks",
            "got " + std::to_string(launch.min_ranks) + ", but launch.ranks (--nproc) is " +
                std::to_string(launch.ranks) + "; expected at most that");
    require(launch.min_ranks == 0 || config_.training.batch_size_per_rank == 0, "training",
            "batch_size_per_rank",
            "is given, but with launch.min_ranks the global batch must not depend on the number of "
            "ranks; set training.global_batch_size instead");
    const size_t devices = launch.devices.size();
    require(devices == 0 || config_.device.index.empty(), "launch", "devices",
            "given together with device.index; remove one of them");
  }

  void check_cluster() const {
    const Cluster& cluster = config_.cluster;
    require(cluster.nodes == 1 || cluster.devices_per_node > 0, "cluster", "devices_per_node",
            "is missing; expected at least 1, because cluster.nodes is " +
                std::to_string(cluster.nodes));
    require(int64_t{cluster.nodes} * cluster.devices_per_node <= kMostRanks, "cluster", "nodes",
            "got " + std::to_string(cluster.nodes) +
                " with cluster.devices_per_node = " + std::to_string(cluster.devices_per_node) +
                "; expected at most " + std::to_string(kMostRanks) + " devices in all");
    require(cluster.memory_gib == 0 || cluster.tflops > 0, "cluster", "memory_gib",
            "is the memory of a device that cluster.tflops and cluster.memory_tbps describe; give "
            "them as well");
    require((cluster.tflops > 0) == (cluster.memory_tbps > 0), "cluster",
            cluster.tflops > 0 ? "memory_tbps" : "tflops",
            "is missing; expected both cluster.tflops and cluster.memory_tbps, or none");
    require(cluster.network_sharers <= std::max(1, cluster.devices_per_node), "cluster",
            "network_sharers",
            "got " + std::to_string(cluster.network_sharers) +
                ", expected at most cluster.devices_per_node = " +
                std::to_string(cluster.devices_per_node));
  }

  bool parallelism_says_no_sync_batch_norm() const {
    const Member* table = root_.find("parallelism");
    return table != nullptr && table->value.find("sync_batch_norm") != nullptr &&
           !config_.parallelism.sync_batch_norm;
  }

  // With ZeRO 2 and 3 every pass over the model reduces and gathers partitions of the gradients, so
  // all ranks must take part in each of them.
  void check_zero() const {
    const Parallelism& parallelism = config_.parallelism;
    const std::string zero_ranks = "got " + std::to_string(parallelism.zero_ranks);
    require(parallelism.zero_ranks != 1, "parallelism", "zero_ranks",
            "got 1, which divides nothing; expected at least 2, or 0 for all ranks");
    require(parallelism.zero_ranks == 0 || parallelism.zero_stage > 0, "parallelism", "zero_ranks",
            zero_ranks +
                ", but zero_stage is 0, so that nothing is divided; remove it, or set "
                "zero_stage");
    require(parallelism.zero_ranks == 0 || !config_.debug.deterministic, "parallelism",
            "zero_ranks",
            zero_ranks +
                ", but debug.deterministic adds gradients in one order for any number of "
                "ranks; remove one of the two");
    if (parallelism.zero_stage < 2) return;
    const auto refuse_with = [&](bool given, const std::string& other, const std::string& why) {
      require(!given, "parallelism", "zero_stage",
              "got " + std::to_string(parallelism.zero_stage) + " with " + other + ", " + why +
                  "; set zero_stage = 1, or remove the other key");
    };
    refuse_with(config_.debug.deterministic, "debug.deterministic = true",
                "which keeps the whole gradient of every virtual shard");
    refuse_with(parallelism.by_speed(), "share = \"by_speed\"",
                "which measures each rank alone, but no rank can compute without the others");
  }
};

}  // namespace

bool has_layer(const std::vector<Layer>& layers, const std::string& type) {
  return std::any_of(layers.begin(), layers.end(), [&](const Layer& layer) {
    return layer.type->name == type ||
           std::any_of(layer.lists.begin(), layer.lists.end(),
                       [&](const auto& list) { return has_layer(list.second, type); });
  });
}

void validate(const Config& config, const Value& root) {
  Rules(config, root).check();
  RankRules(config, root).check();
}

}  // namespace runtime::config
