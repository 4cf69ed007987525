// Broken configurations and the messages about them.
#include <gmock/gmock.h>

#include "tests/runtime/config/support.h"

namespace runtime::config::test {
namespace {

using testing::HasSubstr;

struct Broken {
  const char* name;
  std::string text;  // the content of test.toml
  std::string message;
};

// By default GoogleTest would print the whole text of a parameter.
void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class BrokenText : public testing::TestWithParam<Broken> {};

TEST_P(BrokenText, IsRefusedWithPlaceAndReason) {
  const auto message = message_of([] { read(GetParam().text); });
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

std::string name_of(const testing::TestParamInfo<Broken>& info) { return info.param.name; }

// A valid configuration with `line` as its fourth line.
std::string whole(const std::string& line) { return kWhole + line + "\n"; }

// A configuration with one layer, at line 4, column 14.
std::string layer(const std::string& text) {
  return kDataset + kTraining + "model.input = [4, 8, 8]\n" + "model.layers=[" + text + "]\n";
}

// A configuration with [dataset] on the third line.
std::string dataset(const std::string& text) { return kModel + kTraining + "dataset = " + text; }

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, BrokenText,
    testing::Values(
        Broken{"no_value", whole("optimizer.lr ="), "test.toml:4:15: not valid TOML"},
        Broken{"open_string", whole("job.description = \"abc"), "test.toml:4:23: not valid TOML"},
        Broken{"duplicate_key", whole("model.preset = \"mlp\""), "test.toml:4:16: not valid TOML"},
        Broken{"duplicate_section", "[job]\n[job]\n", "test.toml:2:1: not valid TOML"},
        Broken{"integer_too_large", whole("debug.seed = 99999999999999999999"),
               "test.toml:4:34: not valid TOML"},
        Broken{"bad_utf8", whole("job.description = \"\xC3\x28\""), "not valid TOML"},
        Broken{"letter_after_value", whole("training.epochs = 1\u0401"),
               "test.toml:4:20: not valid"},
        Broken{"nul_byte", std::string("a\0b = 1", 7), "test.toml:1:2: not valid TOML"},
        Broken{"deep_array", std::string("a = ") + repeated("[", 100000),
               "test.toml:1:69: values nested deeper than 64; flatten it"},
        Broken{"deep_table", std::string("a = ") + repeated("{a=", 1000),
               "values nested deeper than 64"},
        Broken{"deep_key", std::string("[") + repeated("a.", 100000) + "a]",
               "test.toml:1:33: dotted key with more parts than 16"},
        Broken{"huge_text", std::string((1 << 20) + 1, '#'), "at most 1048576 are read"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Sections, BrokenText,
    testing::Values(
        Broken{
            "misspelt_section", whole("[optimiser]"),
            "test.toml:4:2: unknown section [optimiser], did you mean [optimizer]?; known: [job]"},
        Broken{"unknown_section", whole("[zzz]"), "test.toml:4:2: unknown section [zzz]; known:"},
        Broken{"profile_of_too_many_steps", whole("[profiling]\nactive = 500\nrepeat = 3"),
               "test.toml:6:10: profiling.repeat: got 3 cycles of 500 active steps, which are 1500 "
               "steps in memory; expected at most 1000; lower active or repeat"},
        Broken{"profile_without_steps", whole("profiling.active = 0"),
               "profiling.active: out of range: got integer 0, expected at least 1, at most 1000"},
        Broken{"misspelt_key_of_a_profile", whole("profiling.warm_up = 1"),
               "profiling.warm_up: unknown key, did you mean \"warmup\"?"},
        Broken{"best_weights_without_checkpoints", whole("early_stopping.restore_best = true"),
               "early_stopping.restore_best: needs the best checkpoint; set checkpoint.keep_best = "
               "1 or more"},
        Broken{"key_of_another_schedule",
               whole("lr_scheduler.name = \"cosine\"\nlr_scheduler.milestones = [5]"),
               "test.toml:5:27: lr_scheduler.milestones: is not used by cosine; remove it, or set "
               "name = \"multi_step\""},
        Broken{"rate_that_grows", whole("lr_scheduler.name = \"step\"\nlr_scheduler.gamma = 1.5"),
               "lr_scheduler.gamma: got 1.5, expected above 0, at most 1 with name = \"step\""},
        Broken{"restarts_without_a_period", whole("lr_scheduler.name = \"cosine_restarts\""),
               "lr_scheduler.period_steps: missing"},
        Broken{"two_warm_ups",
               whole("lr_scheduler.name = \"one_cycle\"\nlr_scheduler.warmup_steps = 3"),
               "lr_scheduler.warmup_steps: is not used by one_cycle, which has warmup_share"},
        Broken{"section_is_a_number", whole("optimizer = 3"),
               "test.toml:4:1: optimizer: wrong value: got integer 3, expected a section "
               "[optimizer]"},
        Broken{"section_is_a_list", whole("[[optimizer]]\nlr = 1"),
               "optimizer: wrong value: got array of 1, expected a section"},
        Broken{"misspelt_key", whole("training.epocs = 3"),
               "test.toml:4:10: training.epocs: unknown key, did you mean \"epochs\"?"},
        Broken{"part_of_a_key", whole("[training.batch_size]"),
               "training.batch_size: unknown key, did you mean \"global_batch_size\"?"},
        Broken{"unknown_key", whole("job.q = 3"),
               "test.toml:4:5: job.q: unknown key; known: description, dump_folder, overwrite"},
        Broken{"unknown_device_key", whole("device.thread = 2"),
               "test.toml:4:8: device.thread: unknown key, did you mean \"threads\"?"},
        Broken{"options_of_a_reader_of_other_samples", whole("dataset.libsvm.a = 1"),
               "test.toml:4:9: dataset.libsvm: is a table of options for a format of the plugin "
               "libsvm, but the data set is \"fashion_mnist\"; remove it"},
        Broken{"plugin_option_is_a_list", whole("device.cpu.a = [1]"),
               "test.toml:4:16: device.cpu.a: wrong value: got array of 1, expected a string, a "
               "number or a boolean"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Values, BrokenText,
    testing::Values(
        Broken{
            "string_for_number", whole("optimizer.lr = \"high\""),
            "test.toml:4:16: optimizer.lr: wrong value: got string \"high\", expected number, at "
            "least 0"},
        Broken{"number_for_integer", whole("training.epochs = 1.5"),
               "test.toml:4:19: training.epochs: wrong value: got number 1.5, expected integer"},
        Broken{"integer_for_boolean", whole("dataset.shuffle = 1"),
               "test.toml:4:19: dataset.shuffle: wrong value: got integer 1, expected true or "
               "false"},
        Broken{"number_for_string", whole("device.backend = 1"),
               "test.toml:4:18: device.backend: wrong value: got integer 1, expected string"},
        Broken{"date_for_string", whole("job.description = 2024-01-01"),
               "test.toml:4:19: job.description: wrong value: got date or time"},
        Broken{"string_for_list", whole("model.freeze = \"conv\""),
               "test.toml:4:16: model.freeze: wrong value: got string \"conv\", expected list of "
               "strings"},
        Broken{"number_in_list_of_strings", whole("plugins.require = [\"a\", 1]"),
               "test.toml:4:25: plugins.require[1]: wrong value: got integer 1"},
        Broken{"number_in_list_of_paths", whole("plugins.path = [1]"),
               "test.toml:4:17: plugins.path[0]: wrong value: got integer 1"},
        Broken{"not_a_number", whole("optimizer.lr = nan"),
               "test.toml:4:16: optimizer.lr: wrong value: got number nan, expected a finite"},
        Broken{"infinite", whole("training.max_norm = inf"),
               "test.toml:4:21: training.max_norm: wrong value: got number inf"},
        Broken{"negative_rate", whole("optimizer.lr = -0.1"),
               "test.toml:4:16: optimizer.lr: out of range: got number -0.1, expected at least 0"},
        Broken{"momentum_of_one", whole("optimizer.momentum = 1"),
               "test.toml:4:22: optimizer.momentum: out of range: got integer 1, expected at least "
               "0, below 1"},
        Broken{"batch_of_none", kDataset + kModel + "training.global_batch_size = 0",
               "test.toml:3:30: training.global_batch_size: out of range: got integer 0, expected "
               "at least 1"},
        Broken{"huge_batch", kDataset + kModel + "training.global_batch_size = 9223372036854775807",
               "test.toml:3:30: training.global_batch_size: out of range"},
        Broken{"negative_seed", whole("debug.seed = -1"),
               "test.toml:4:14: debug.seed: out of range: got integer -1"},
        Broken{"bad_choice", whole("dataset.last_batch = \"dorp\""),
               "test.toml:4:22: dataset.last_batch: unknown choice: got string \"dorp\", expected "
               "one of \"drop\", \"pad\", \"keep\", did you mean \"drop\"?"},
        Broken{"index_word", whole("device.index = \"first\""),
               "test.toml:4:16: device.index: wrong value: got string \"first\", expected integer, "
               "list of integers or \"auto\""},
        Broken{"control_character", whole("job.dump_folder = \"a\\u0000b\""),
               "test.toml:4:19: job.dump_folder: wrong value: got string \"a\\u0000b\", expected "
               "text without control characters"},
        Broken{"long_list", whole("dataset.resize = [1, 2, 3]"),
               "test.toml:4:18: dataset.resize: list too long: got 3 items, expected at most 2"},
        Broken{"unknown_init", whole("model.init = \"xavier\""),
               "test.toml:4:14: model.init: unknown choice: got string \"xavier\""},
        Broken{"unknown_init_table", whole("model.init = { norml = 1 }"),
               "test.toml:4:16: model.init: unknown key \"norml\", did you mean \"normal\"?"},
        Broken{"two_inits", whole("model.init = { normal = 1, uniform = 1 }"),
               "test.toml:4:14: model.init: wrong value: got table, expected a name"},
        Broken{"negative_deviation", whole("model.init = { normal = -1 }"),
               "test.toml:4:25: model.init.normal: out of range: got integer -1"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Combinations, BrokenText,
    testing::Values(
        Broken{"epochs_and_steps", whole("training.epochs = 1\ntraining.steps = 2"),
               "test.toml:5:10: training.steps: both epochs and steps are given, expected one"},
        Broken{"more_ranks_left_than_started", whole("launch.ranks = 2\nlaunch.min_ranks = 3"),
               "launch.min_ranks: got 3, but launch.ranks (--nproc) is 2; expected at most that"},
        Broken{"elastic_batch_per_rank",
               kDataset + kModel +
                   "training = { epochs = 1, batch_size_per_rank = 4 }\n"
                   "launch = { ranks = 2, min_ranks = 1 }\n",
               "training.batch_size_per_rank: is given, but with launch.min_ranks the global batch "
               "must not depend on the number of ranks"},
        Broken{"preset_and_layers", whole("model.layers = []"),
               "test.toml:4:7: model.layers: both preset and layers are given"},
        Broken{"name_and_format", whole("dataset.format = \"csv\""),
               "test.toml:4:9: dataset.format: both name and format are given"},
        Broken{"no_batch_size", kDataset + kModel,
               "test.toml:1:1: training.global_batch_size: missing: it has no default; expected "
               "integer"},
        Broken{"no_batch_size_in_section", kDataset + kModel + "[training]\nepochs = 1\n",
               "test.toml:3:1: training.global_batch_size: missing"},
        Broken{"no_model", kDataset + kTraining, "test.toml:1:1: model.input: missing"},
        Broken{"no_layers", kDataset + kTraining + "model.input = [1]\n",
               "model.layers: missing: the model has no layers; give a list of layers or a preset"},
        Broken{"no_input", kDataset + kTraining + "[model]\nlayers = [{ type = \"relu\" }]\n",
               "test.toml:3:1: model.input: missing"},
        Broken{"empty_input",
               kDataset + kTraining + "[model]\ninput = []\nlayers = [{ type = \"relu\" }]\n",
               "test.toml:4:9: model.input: got 0 numbers, expected [channels, height, width]"},
        Broken{"no_dataset", kModel + kTraining,
               "test.toml:1:1: dataset.name: missing: no data "
               "set is given"},
        Broken{"unknown_preset", kDataset + kTraining + "model.preset = \"lenett\"",
               "test.toml:3:16: model.preset: unknown preset \"lenett\", did you mean \"lenet\"?; "
               "known: alexnet, alexnet_small, bert_base, gpt2, "},
        Broken{"preset_outside", kDataset + kTraining + "model.preset = \"../presets/lenet\"",
               "test.toml:3:16: model.preset: unknown preset"},
        Broken{"csv_without_path", dataset("{ format = \"csv\", target = \"y\" }"),
               "test.toml:3:11: dataset.path: missing: format = \"csv\" needs the path"},
        Broken{"csv_without_target", dataset("{ format = \"csv\", path = \"y\" }"),
               "test.toml:3:11: dataset.target: missing: format = \"csv\" needs the column"},
        Broken{"npy_without_target", dataset("{ format = \"npy\", path = \"y\" }"),
               "test.toml:3:11: dataset.target_path: missing"},
        Broken{"synthetic_without_samples", dataset("{ name = \"synthetic\", classes = 2 }"),
               "dataset.samples: missing: name = \"synthetic\" needs the number of samples"},
        Broken{"synthetic_without_classes", dataset("{ format = \"synthetic\", samples = 2 }"),
               "test.toml:3:11: dataset.classes: missing: synthetic classification"},
        Broken{"text_without_path", dataset("{ format = \"text\" }"),
               "test.toml:3:11: dataset.path: missing: format = \"text\" needs the path"},
        Broken{"tokenizer_of_images", whole("dataset.tokenizer = \"byte\""),
               "test.toml:4:21: dataset.tokenizer: is not used by fashion_mnist; remove it"},
        Broken{"unknown_tokenizer", whole("dataset.tokenizer = \"word\""),
               "test.toml:4:21: dataset.tokenizer: unknown choice: got string \"word\", expected "
               "one of"},
        Broken{"stride_of_images", whole("dataset.stride = 2"),
               "4:18: dataset.stride: is not used"},
        Broken{"type_of_text",
               dataset("{ format = \"text\", path = \"a\", token_type = \"uint32\" }"),
               "dataset.token_type: is not used by text; remove it"},
        Broken{"characters_of_tokens",
               dataset("{ format = \"tokens\", path = \"a\", tokenizer = \"char\" }"),
               "dataset.tokenizer: got \"char\", but the characters of a file of tokens are not"},
        Broken{"gpt2_without_files",
               dataset("{ format = \"text\", path = \"a\", tokenizer = \"gpt2\" }"),
               "dataset.tokenizer_path: missing: it must name the folder of vocab.json"},
        Broken{"hf_without_file",
               dataset("{ format = \"text\", path = \"a\", tokenizer = \"hf\" }"),
               "dataset.tokenizer_path: missing: it must name tokenizer.json"},
        Broken{"invalid_utf8_of_tokens",
               dataset("{ format = \"tokens\", path = \"a\", invalid_utf8 = \"replace\" }"),
               "dataset.invalid_utf8: is not used by tokens; remove it"},
        Broken{"files_without_gpt2",
               dataset("{ format = \"text\", path = \"a\", tokenizer_path = \"b\" }"),
               "dataset.tokenizer_path: is used by tokenizer = \"gpt2\" and"},
        Broken{"next_token_of_csv",
               dataset("{ format = \"csv\", path = \"a\", target = \"b\", task = \"next_token\" }"),
               "dataset.task: got \"next_token\", which is for synthetic data"},
        Broken{"images_of_text", dataset("{ format = \"text\", path = \"a\" }"),
               "model.input: got 3 numbers, expected [length]"},
        Broken{"steps_of_asynchronous_ranks",
               whole("validation.every_steps = 5\nparallelism = { update = \"asynchronous\" }"),
               "test.toml:4:26: validation.every_steps: is not possible with parallelism.update"},
        Broken{"sharded_gradients_by_speed",
               whole("parallelism = { share = \"by_speed\", zero_stage = 2 }"),
               "parallelism.zero_stage: got 2 with share = \"by_speed\""},
        Broken{"sharded_gradients_of_virtual_shards",
               whole("parallelism.zero_stage = 2\ndebug.deterministic = true"),
               "parallelism.zero_stage: got 2 with debug.deterministic = true"},
        Broken{"deterministic_without_sync_batch_norm",
               kDataset + kTraining +
                   "parallelism.sync_batch_norm = false\ndebug.deterministic = true\n"
                   "model = { input = [3], layers = [{ type = \"residual\", layers = "
                   "[{ type = \"batch_norm\" }] }] }\n",
               "parallelism.sync_batch_norm: got false, but debug.deterministic promises"},
        Broken{"images_for_regression", whole("dataset.task = \"regression\""),
               "test.toml:4:16: dataset.task: got \"regression\", but fashion_mnist holds classes"},
        Broken{
            "two_validations",
            whole("dataset.validation_path = \"v\"\ndataset.validation_split = 0.1"),
            "test.toml:5:9: dataset.validation_split: both validation_path and validation_split"},
        Broken{"mean_and_std_differ", whole("dataset.mean = [1, 2]\ndataset.std = [1]"),
               "test.toml:5:15: dataset.std: got 1 numbers, expected one per channel"},
        Broken{"standardize_twice", whole("dataset.mean = [1]\ndataset.standardize = true"),
               "test.toml:5:23: dataset.standardize: got true, but mean or std are given too"},
        Broken{"momentum_for_adamw", whole("optimizer = { name = \"adamw\", momentum = 0.9 }"),
               "test.toml:4:42: optimizer.momentum: is not used by adamw"},
        Broken{"betas_for_sgd", whole("optimizer.betas = [0.1, 0.2]"),
               "test.toml:4:19: optimizer.betas: is not used by sgd"},
        Broken{"one_beta", whole("optimizer = { name = \"adamw\", betas = [0.9] }"),
               "test.toml:4:39: optimizer.betas: got 1 numbers, expected 2"},
        Broken{"dampening_alone", whole("optimizer.dampening = 0.1"),
               "test.toml:4:23: optimizer.dampening: got 0.1, but momentum is 0"},
        Broken{"dampened_nesterov",
               whole("optimizer = { momentum = 0.9, nesterov = true, dampening = 0.1 }"),
               "test.toml:4:42: optimizer.nesterov: got true, but dampening is 0.1"},
        Broken{"alpha_for_adam", whole("optimizer = { name = \"adam\", alpha = 0.5 }"),
               "test.toml:4:38: optimizer.alpha: is not used by adam; remove it, or set name = "
               "\"rmsprop\""},
        Broken{"group_is_no_list", whole("optimizer.group = 3"),
               "test.toml:4:19: optimizer.group: wrong value: got integer 3, expected list of "
               "tables"},
        Broken{"group_is_no_table", whole("optimizer.group = [3]"),
               "test.toml:4:20: optimizer.group[0]: wrong value: got integer 3, expected a table "
               "with the keys parameters, name, lr"},
        Broken{"group_without_parameters", whole("optimizer.group = [{ lr = 1 }]"),
               "test.toml:4:20: optimizer.group[0].parameters: missing: it has no default; "
               "expected list of strings"},
        Broken{"group_of_nothing", whole("optimizer.group = [{ parameters = [] }]"),
               "test.toml:4:35: optimizer.group[0].parameters: got an empty list"},
        Broken{"unknown_key_of_group",
               whole("optimizer.group = [{ parameters = [\"a\"], rl = 1 }]"),
               "optimizer.group[0].rl: unknown key, did you mean \"lr\"?"},
        Broken{
            "unused_key_of_group",
            whole("optimizer.group = [{ parameters = [\"a\"], name = \"adam\", momentum = 0.9 }]"),
            "optimizer.group[0].momentum: is not used by adam"},
        Broken{"group_beside_no_rate",
               whole("optimizer = { lr = 0, group = [{ parameters = [\"a\"], lr = 1 }] }"),
               "optimizer.group[0].lr: got 1.0, but optimizer.lr is 0"},
        Broken{"two_ways_to_clip", whole("training.max_norm = 1\ntraining.max_value = 1"),
               "training.max_value: got 1.0, but max_norm is 1.0; expected one of the two"},
        Broken{"nesterov_alone", whole("optimizer.nesterov = true"),
               "test.toml:4:22: optimizer.nesterov: got true, but momentum is 0"},
        Broken{"wrong_loss", whole("training.loss = \"mean_squared_error\""),
               "test.toml:4:17: training.loss: got \"mean_squared_error\", but dataset.task is"},
        Broken{"loss_of_regression", whole("training.loss = \"huber\""),
               "test.toml:4:17: training.loss: got \"huber\", but dataset.task is"},
        Broken{"delta_without_huber", whole("training.huber_delta = 2"),
               "test.toml:4:24: training.huber_delta: is not used by cross_entropy; remove it"},
        Broken{"weights_beside_smoothing",
               whole("training.class_weights = [1, 2]\ntraining.label_smoothing = 0.1"),
               "training.class_weights: is not possible with label_smoothing"},
        Broken{"ignored_class_of_images", whole("training.ignore_label = 0"),
               "training.ignore_label: is for language models"},
        Broken{"init_except_alone", whole("model.init_except = [\"fc.*\"]"),
               "test.toml:4:21: model.init_except: is not used without init_from"},
        Broken{"text_that_extends", whole("extends = [\"a.toml\"]"),
               "extends: got string \"a.toml\", but a text that is not in a file"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Layers, BrokenText,
    testing::Values(
        Broken{"not_a_table", layer("3"),
               "test.toml:4:15: model.layers[0]: wrong value: got integer 3, expected a table"},
        Broken{"no_type", layer("{ kernel = 3 }"),
               "test.toml:4:15: model.layers[0].type: missing: every layer needs a type; known: "
               "conv2d"},
        Broken{"type_is_a_number", layer("{ type = 3 }"),
               "test.toml:4:24: model.layers[0].type: wrong value: got integer 3"},
        Broken{"unknown_type", layer("{ type = \"conv2\" }"),
               "test.toml:4:24: model.layers[0].type: unknown layer type \"conv2\", did you mean "
               "\"conv2d\"?"},
        Broken{"unknown_layer_key", layer("{ type = \"linear\", feature = 3 }"),
               "test.toml:4:34: model.layers[0].feature: unknown key of linear, did you mean "
               "\"features\"?"},
        Broken{"key_of_another_type", layer("{ type = \"relu\", activation = \"relu\" }"),
               "test.toml:4:32: model.layers[0].activation: unknown key of relu"},
        Broken{"no_features", layer("{ type = \"linear\" }"),
               "test.toml:4:15: model.layers[0].features: missing: a linear needs it; expected "
               "integer, at least 1"},
        Broken{"three_kernels", layer("{ type = \"max_pool2d\", kernel = [1, 2, 3] }"),
               "test.toml:4:47: model.layers[0].kernel: wrong value: got array of 3, expected "
               "integer or [h, w]"},
        Broken{"kernel_of_none", layer("{ type = \"max_pool2d\", kernel = [1, 0] }"),
               "test.toml:4:51: model.layers[0].kernel: out of range: got integer 0"},
        Broken{"valid_padding",
               layer("{ type = \"conv2d\", channels = 1, kernel = 1, padding = \"valid\" }"),
               "model.layers[0].padding: wrong value: got string \"valid\", expected integer, [h, "
               "w] or \"same\""},
        Broken{"pool_padding", layer("{ type = \"avg_pool2d\", kernel = 2, padding = 2 }"),
               "test.toml:4:60: model.layers[0].padding: out of range: got 2, expected less than "
               "the kernel, 2"},
        Broken{"groups", layer("{ type = \"conv2d\", channels = 4, kernel = 1, groups = 3 }"),
               "model.layers[0].groups: wrong value: got 3, expected a divisor of channels, 4"},
        Broken{"probability", layer("{ type = \"dropout\", probability = 1.0 }"),
               "test.toml:4:49: model.layers[0].probability: out of range: got number 1.0"},
        Broken{"nested",
               layer("{ type = \"block\", layers = [{ type = \"relu\" }, { type = 1 }] }"),
               "model.layers[0].layers[1].type: wrong value: got integer 1"},
        Broken{"empty_block", layer("{ type = \"block\", layers = [] }"),
               "test.toml:4:42: model.layers[0].layers: wrong value: got an empty list"},
        Broken{"bad_name", layer("{ type = \"relu\", name = \"a/b\" }"),
               "test.toml:4:39: model.layers[0].name: wrong value: got string \"a/b\""},
        Broken{"same_names",
               layer("{ type = \"relu\", name = \"a\" }, { type = \"tanh\", name = \"a\" }"),
               "two layers are named \"a\", expected unique names"},
        Broken{"tied_and_drawn",
               layer("{ type = \"linear\", features = 1, tie = \"e\", init = \"default\" }"),
               "model.layers[0].init: describes a weight, but a tied layer uses the weight of the "
               "embedding"},
        Broken{"file_layout", layer("{ type = \"linear\", features = 1, file_layout = \"io\" }"),
               "expected one of \"out_in\", \"in_out\""},
        Broken{"repeat_too_often", layer("{ type = \"linear\", features = 1, repeat = 1001 }"),
               "model.layers[0].repeat: out of range: got integer 1001, expected at least 1, at "
               "most 1000"},
        Broken{"too_many_layers",
               layer(repeated("{ type = \"block\", repeat = 1000, layers = [", 12) +
                     "{ type = \"relu\" }" + repeated("] }", 12)),
               "model.layers: too many layers: with every repeat written out there are more than "
               "10000"}),
    name_of);

// Errors that involve files.
class BrokenFile : public testing::Test {
 protected:
  std::string load_message(const std::string& text, const std::vector<Override>& overrides = {}) {
    const std::string path = folder_.write("main.toml", text);
    return message_of([&] { load(path, overrides, presets(), model::layer_types()); });
  }
  TemporaryFolder folder_;
};

TEST_F(BrokenFile, IsMissing) {
  const auto message =
      message_of([&] { load(folder_.path() + "/no.toml", {}, presets(), model::layer_types()); });
  EXPECT_THAT(message, HasSubstr("cannot read configuration " + folder_.path() + "/no.toml"));
  EXPECT_THAT(message, HasSubstr("does not exist or cannot be read"));
}

TEST_F(BrokenFile, IsAFolder) {
  const auto message =
      message_of([&] { load(folder_.path(), {}, presets(), model::layer_types()); });
  EXPECT_THAT(message, HasSubstr("it is a folder, expected a TOML file"));
}

TEST_F(BrokenFile, IsEndless) {
  const auto message = message_of([&] { load("/dev/zero", {}, presets(), model::layer_types()); });
  EXPECT_THAT(message, HasSubstr("at most 1048576 are read"));
}

TEST_F(BrokenFile, ExtendsAMissingFile) {
  const auto message = load_message("extends = [\"no.toml\"]\n" + kWhole);
  EXPECT_THAT(message, HasSubstr("main.toml:1:12: extends: cannot read "));
  EXPECT_THAT(message, HasSubstr("no.toml: it does not exist"));
}

TEST_F(BrokenFile, ExtendsItself) {
  folder_.write("a.toml", "extends = \"main.toml\"\n");
  EXPECT_THAT(load_message("extends = \"a.toml\"\n" + kWhole),
              HasSubstr("a.toml:1:11: extends: got string \"main.toml\", a cycle"));
}

TEST_F(BrokenFile, ExtendsWithoutEnd) {
  std::string previous = kWhole;
  for (int i = 0; i < 10; ++i) {
    const std::string file = std::string("f").append(std::to_string(i)) + ".toml";
    folder_.write(file, previous);
    previous = std::string("extends = [\"").append(file) + "\", \"" + file + "\"]\n";
  }
  EXPECT_THAT(load_message(previous), HasSubstr("more than 64 files are extended"));
}

TEST_F(BrokenFile, ExtendsANumber) {
  EXPECT_THAT(load_message("extends = 3\n"),
              HasSubstr("main.toml:1:11: extends: wrong value: got integer 3, expected list of"));
}

TEST_F(BrokenFile, PresetHoldsMoreThanAModel) {
  folder_.write("presets/bad.toml", "training.epochs = 3\n");
  const auto message = message_of([&] {
    load_text(kDataset + kTraining + "model.preset = \"bad\"\n", "test", {},
              folder_.path() + "/presets", model::layer_types());
  });
  EXPECT_THAT(message,
              HasSubstr("bad.toml:1:1: training: a preset holds only [model] with input and"));
}

struct BrokenOverride {
  const char* name;
  std::vector<Override> overrides;
  std::string message;
};

void PrintTo(const BrokenOverride& broken, std::ostream* out) { *out << broken.name; }

class BrokenSet : public testing::TestWithParam<BrokenOverride> {};

TEST_P(BrokenSet, IsRefused) {
  const auto message = message_of([] { read(kWhole, GetParam().overrides); });
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Set, BrokenSet,
    testing::Values(
        BrokenOverride{
            "no_section", {{"epochs", "3"}}, "--set epochs: wrong key, expected section.key=value"},
        BrokenOverride{"empty_part", {{"training..x", "3"}}, "--set training..x: wrong key"},
        BrokenOverride{"empty_key", {{"", "3"}}, "--set: wrong key"},
        BrokenOverride{"unknown_key",
                       {{"debug.seed", "1"}, {"training.epocs", "3"}},
                       "--set training.epocs: unknown key, did you mean \"epochs\"?"},
        BrokenOverride{"unknown_section", {{"trainin.epochs", "3"}}, "did you mean [training]?"},
        BrokenOverride{"open_list",
                       {{"dataset.mean", "[1, 2"}},
                       "--set dataset.mean: got \"[1, 2\", expected a TOML value on one line"},
        BrokenOverride{"empty_value", {{"optimizer.lr", ""}}, "optimizer.lr: got \"\""},
        BrokenOverride{"two_lines",
                       {{"optimizer.lr", "1\ntraining = 2"}},
                       "expected a TOML value on one line"},
        BrokenOverride{"wrong_type",
                       {{"optimizer.lr", "fast"}},
                       "--set optimizer.lr: wrong value: got string \"fast\""},
        BrokenOverride{"of_an_option",
                       {{"validation.metrics", "[\"f2\"]", "--metrics"}},
                       "--metrics: validation.metrics: got \"f2\", did you mean \"f1\"?"},
        BrokenOverride{"both_of_two",
                       {{"training.steps", "3"}, {"training.epochs", "3"}},
                       "both epochs and steps are given"},
        BrokenOverride{
            "extends", {{"extends.a", "b"}}, "extends.a: wrong key, expected section.key=value"},
        BrokenOverride{"profile_of_a_word",
                       {{"profiling.enabled", "yes"}},
                       "profiling.enabled: wrong value: got string \"yes\""}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace runtime::config::test
