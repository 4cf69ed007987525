// Reads the command line into the arguments of a command, which then runs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "plugins/host/nearest.h"
#include "runtime/cli/command_table.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/external.h"
#include "runtime/cli/number_checks.h"
#include "runtime/cli/parse.h"
#include "runtime/error.h"
#include "runtime/model/layer_types.h"

namespace runtime::cli {

namespace {

constexpr const char* kExamples = R"(Examples:
  runtime train configs/fashion_mnist_lenet.toml
  runtime train configs/fashion_mnist_lenet.toml --set device.backend=reference --max-steps 20
  runtime evaluate configs/fashion_mnist_lenet.toml --weights outputs/.../weights.safetensors
  runtime devices

Exit codes: 0 done, 1 a fault of the program itself, 2 configuration or command line, 3 plugin or device,
4 communication, 5 data, weights, checkpoint or output, 6 numeric (NaN, devices that disagree), 129, 130 or
143 stopped by SIGHUP, SIGINT or SIGTERM after saving, 138 by SIGUSR1 after the next checkpoint; a second
signal ends the program at once. 141: the reader of the output has ended.)";

void add_train(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Trains the model of a TOML file");
  arguments->config.add_to(*command);
  arguments->config.add_ranks_to(*command);
  command->add_option("--weights", arguments->weights,
                      "The safetensors file whose weights training starts from");
  command->add_option("--resume", arguments->resume,
                      "Go on from a checkpoint: auto (the newest of the run, or of the newest run; "
                      "step 0 if there is none), or the folder of a run or of a checkpoint");
  command
      ->add_option("--max-steps", arguments->max_steps,
                   "The number of steps after which training stops")
      ->check(positive(arguments->max_steps));
  auto progress = std::make_shared<std::string>();
  CLI::Option* const shown =
      command
          ->add_option("--progress", *progress,
                       "What is printed (metrics.progress); default: a bar on a terminal, "
                       "otherwise JSON lines")
          ->check(CLI::IsMember({"auto", "bar", "epochs", "lines", "off"}));
  auto quiet = std::make_shared<bool>(false);
  command->add_flag("-q,--quiet", *quiet, "Prints warnings and errors only: --progress off")
      ->excludes(shown);
  command->footer(
      "Examples:\n"
      "  runtime train configs/fashion_mnist_lenet.toml\n"
      "  runtime train configs/fashion_mnist_lenet.toml --set optimizer.lr=0.1 --set "
      "training.epochs=3\n"
      "  runtime train configs/cifar10_resnet18.toml --weights resnet18.safetensors --max-steps "
      "100\n"
      "  runtime train configs/fashion_mnist_lenet.toml --resume auto\n"
      "  runtime train configs/fashion_mnist_lenet.toml --set profiling.enabled=true\n"
      "  runtime train configs/fashion_mnist_lenet.toml --nproc 2\n"
      "  runtime train configs/fashion_mnist_lenet.toml --nproc 2 --set comm.backend=gloo\n"
      "  mpirun -n 4 runtime train configs/fashion_mnist_lenet.toml");
  command->callback([arguments, quiet, progress, &outcome] {
    if (*quiet) *progress = "off";
    if (!progress->empty())
      arguments->config.options.push_back({"metrics.progress", *progress, "--progress"});
    run_train(*arguments, outcome);
  });
}

const char* const kWeightsHelp =
    "The safetensors file with the model's weights; default: weights.safetensors beside CONFIG";

void add_evaluate(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Prints loss, accuracy and other metrics of saved weights");
  arguments->config.add_to(*command);
  arguments->config.add_ranks_to(*command);
  command->add_option("--weights", arguments->weights, kWeightsHelp);
  command->add_option("--part", arguments->part, "The samples to evaluate: validation or train")
      ->check(CLI::IsMember({"validation", "train"}));
  command
      ->add_option("--metrics", arguments->metrics,
                   "Names separated by commas, instead of validation.metrics: f1,auroc,confusion")
      ->delimiter(',');
  command
      ->add_option("--format", arguments->format,
                   "The output format; default: a table on a terminal, otherwise one JSON object")
      ->check(CLI::IsMember({"table", "json"}));
  command->footer(
      "Examples:\n  runtime evaluate configs/fashion_mnist_lenet.toml --weights "
      "outputs/run/weights.safetensors\n"
      "  runtime evaluate configs/fashion_mnist_lenet.toml --weights "
      "outputs/run/weights.safetensors --metrics top_3,f1,auroc,confusion --format table");
  command->callback([arguments, &outcome] {
    arguments->weights = arguments->config.weights_or_own(arguments->weights);
    run_evaluate(*arguments, outcome);
  });
}

// The options of predict for language models.
void add_text_options(CLI::App& command, PredictArguments& a) {
  command.add_option("--prompt", a.prompt,
                     "Language models: the text to continue (token ids where the data set has "
                     "no tokenizer); default: a new line");
  command
      .add_option("--tokens", a.tokens,
                  "Language models: the number of tokens to generate; default 500")
      ->check(non_negative(a.tokens));
  command
      .add_option("--temperature", a.sampling.temperature,
                  "Divides the logits: below 1 likely tokens become likelier, 0 takes the most "
                  "likely one; default 0.8")
      ->check(between(a.sampling.temperature, 0.0, 1e6));
  command
      .add_option(
          "--top-k", a.sampling.top_k,
          "Tokens are drawn from this number of the most likely ones; 0: from all; default 200")
      ->check(non_negative(a.sampling.top_k));
  command
      .add_option("--top-p", a.sampling.top_p,
                  "Tokens are drawn from the fewest most likely ones whose probabilities sum to "
                  "this; default 1")
      ->check(between(a.sampling.top_p, 1e-6, 1.0));
  command
      .add_option("--stop", a.stop,
                  "A text behind which generation ends; may be given several times. It also ends "
                  "with the token dataset.separator")
      ->allow_extra_args(false);
  command.add_flag("--chat", a.chat,
                   "The prompt is a user's turn of a conversation, written as models with the "
                   "special tokens of ChatML or Llama 3 expect it; only the answer is printed");
  command.add_option("--system", a.system, "With --chat: the instruction before the turn");
  command.add_flag("--special-tokens", a.special_tokens,
                   "The tokenizer's special tokens stand before the prompt, for example the one "
                   "that begins a text");
  command.add_option("--seed", a.sampling.seed,
                     "Language models: the seed with which tokens are drawn; default 42");
}

void add_predict(CLI::App& app) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand(
      "predict",
      "Prints what a trained model predicts: text of a language model, else a class or numbers for "
      "each sample");
  PredictArguments& a = *arguments;
  a.config.add_to(*command);
  command->add_option("--weights", a.weights, kWeightsHelp);
  add_text_options(*command, a);
  command->add_option("--part", a.part, "Other models: the samples to predict, validation or train")
      ->check(CLI::IsMember({"validation", "train"}));
  command->add_option("--data", a.data,
                      "Other models: a file, or a folder of images, of the configuration's format "
                      "whose samples are predicted instead, with labels or without");
  command->add_option("--format", a.format, "The output format: json (one object a line) or csv")
      ->check(CLI::IsMember({"json", "csv"}));
  command
      ->add_option("--samples", a.samples,
                   "The number of samples, counted from the first; default: all")
      ->check(positive(a.samples));
  command->footer(
      "Text is written as it comes; the same seed gives the same text. Samples are prepared as "
      "those that\n"
      "the weights were trained on: the weights hold means, deviations and the names of classes.\n"
      "Examples:\n"
      "  runtime predict configs/shakespeare_gpt_cpu.toml --weights "
      "outputs/run/weights.safetensors --prompt ROMEO: --tokens 300\n"
      "  runtime predict model/config.toml --chat --prompt \"Name three rivers.\" --top-p 0.9\n"
      "  runtime predict configs/fashion_mnist_lenet.toml --weights "
      "outputs/run/weights.safetensors --format csv > predictions.csv\n"
      "  runtime predict flowers.toml --weights outputs/run/weights.safetensors --data new.csv");
  command->callback([arguments, command] {
    arguments->weights = arguments->config.weights_or_own(arguments->weights);
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() > 0) arguments->given.push_back(option->get_name());
    }
    run_predict(*arguments);
  });
}

void add_gradients(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<GradientsArguments>();
  CLI::App* command = app.add_subcommand(
      "gradients",
      "Writes loss, logits and gradients of one batch, to compare with another framework");
  arguments->config.add_to(*command);
  arguments->config.add_ranks_to(*command);
  command->add_option("--weights", arguments->weights, "The safetensors file with the weights");
  command->add_option("--batch", arguments->batch, "The index of the batch in the run, from 0")
      ->check(non_negative(arguments->batch));
  command->add_option("--output", arguments->output, "The safetensors file to write")->required();
  command->footer(
      "The file holds every parameter's gradient under its name, over all ranks, `loss`, the "
      "weights and running statistics that\n"
      "the pass began with as `weights.<name>`, the running statistics behind it as "
      "`after.<name>`, and on one rank `logits` and\n"
      "the batch (`features` in N,H,W,C, `labels` or `targets`). Batch k is computed as step k of "
      "the run: dropout has its masks.\n"
      "Example:\n  runtime gradients configs/fashion_mnist_lenet.toml --batch 3 --output "
      "step3.safetensors");
  command->callback([arguments, &outcome] { run_gradients(*arguments, outcome); });
}

void add_plan(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand("plan",
                                         "Prints operations, implementations, fusion, memory by "
                                         "buffer and FLOPs of a step; trains nothing");
  arguments->config.add_to(*command);
  command
      ->add_option("--world-size", arguments->world_size,
                   "Plans this number of ranks, of any mesh: rank 0 in detail, memory, traffic and "
                   "times of all, and whether they pay; starts none of them; default: one for "
                   "each device of [cluster], which says what they are and what connects them. "
                   "With parallelism.search = true: all meshes of that many ranks, and the fastest")
      ->check(between(arguments->world_size, 1, 1 << 20));
  command->add_flag("--passes", arguments->passes,
                    "Lists the passes that compile the step of rank 0, in order, with operations, "
                    "memory and FLOPs after each");
  command->add_option("--dump-graph", arguments->dump_graph,
                      "Writes the graph after each pass into this folder: as text for diff, and "
                      "for Graphviz (dot -Tsvg)");
  command->footer(
      "Examples:\n  runtime plan configs/fashion_mnist_lenet.toml --set device.backend=cpu\n  "
      "runtime plan configs/fashion_mnist_lenet.toml --passes --dump-graph graphs\n  "
      "runtime plan configs/cifar10_resnet18.toml --world-size 8 --set comm.backend=gloo "
      "--set cluster.link_gbps=10\n  runtime plan configs/bench_gpt.toml --world-size 4 --set "
      "parallelism.tensor=2 --set parallelism.pipeline=2\n  runtime plan configs/bench_gpt.toml "
      "--world-size 8 --set parallelism.search=true\n  runtime plan tools/gpu/gpt2.toml --set "
      "device.backend=cuda --set training.mixed_precision=bf16 --set cluster.tflops=790 "
      "--set cluster.memory_tbps=4.3");
  command->callback([arguments] { run_plan(*arguments); });
}

void add_devices(CLI::App& app) {
  auto folders = std::make_shared<Folders>();
  CLI::App* command =
      app.add_subcommand("devices", "Lists every plugin's devices, and why one is not usable");
  command->add_option("--path", *folders,
                      "Further folders or files to search for plugins (absolute paths)");
  command->footer("Example:\n  RUNTIME_PLUGIN_PATH=$HOME/my_plugin runtime devices");
  command->callback([folders] { list_devices(*folders); });
}

void add_plugins(CLI::App& app) {
  auto folders = std::make_shared<Folders>();
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("plugins", "Lists plugins, or describes one");
  command->require_subcommand(1);
  command->add_option("--path", *folders,
                      "Further folders or files to search for plugins (absolute paths)");
  CLI::App* list_command = command->add_subcommand(
      "list",
      "Lists every plugin that was found, and every file that was rejected, with the reason");
  list_command->footer("Example:\n  runtime plugins list");
  list_command->callback([folders] { list_plugins(*folders); });
  CLI::App* info_command =
      command->add_subcommand("info", "Prints version, interfaces, keys and devices of one plugin");
  info_command->add_option("NAME", *name, "The plugin's name")->required();
  info_command->footer("Example:\n  runtime plugins info cpu");
  info_command->callback([folders, name] { describe_plugin(*folders, *name); });
  command->footer(
      "Examples:\n  runtime plugins list\n  runtime plugins info cpu\n"
      "  runtime plugins check ./my_device.so   (tries a plugin against the contract)");
}

void add_model(CLI::App& app) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* command =
      app.add_subcommand("model", "Prints the layers of a model with shapes, parameters and FLOPs");
  arguments->add_to(*command);
  command->footer(
      "Examples:\n"
      "  runtime model configs/fashion_mnist_lenet.toml\n"
      "  runtime model configs/bench_gpt.toml --set model.input=[128]");
  command->callback([arguments] { show_model(*arguments); });
}

void add_checkpoint(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("checkpoint", "Describes, checks, exports and joins checkpoints");
  command->require_subcommand(1);
  auto path = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help) {
    CLI::App* const sub = command->add_subcommand(name, help);
    sub->add_option("PATH", *path, "The folder of a checkpoint or of a run")->required();
    const bool writes = std::string(name) == "export" || std::string(name) == "reshard";
    sub->footer("Example:\n  runtime checkpoint " + std::string(name) + " outputs/run" +
                (writes ? " --output NAME" : ""));
    return sub;
  };
  add("info", "Prints step, ranks, size and device of a checkpoint, or of all of a run")
      ->callback([path] { checkpoint_info(*path); });
  add("verify", "Reads every byte and compares it with the checksums of the manifest")
      ->callback([path] { checkpoint_verify(*path); });
  CLI::App* const exported =
      add("export", "Writes the weights with PyTorch's names and layouts; needs no device");
  exported->add_option("--output", *output, "The safetensors file to write")->required();
  exported->callback([path, output] { checkpoint_export(*path, *output); });
  CLI::App* const reshard =
      add("reshard",
          "Joins the files of all ranks to one of whole tensors (--resume cuts them anew for any "
          "number of ranks by itself)");
  reshard->add_option("--output", *output, "The folder to make")->required();
  reshard->callback([path, output] { checkpoint_reshard(*path, *output); });
  command->footer(
      "Examples:\n"
      "  runtime checkpoint info outputs/fashion_mnist_lenet/20261121-093509\n"
      "  runtime checkpoint verify outputs/run/checkpoints/step-000002350\n"
      "  runtime checkpoint export outputs/run --output weights.safetensors");
}

void add_exchange(CLI::App& app) {
  auto from = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* help, const char* whose, const char* example) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->require_subcommand(1);
    command->footer(example);
    CLI::App* const hf = command->add_subcommand("hf", whose);
    hf->add_option("--output", *output, "The folder to make")->required();
    hf->footer(example);
    return hf;
  };
  CLI::App* const imported = add(
      "import", "Makes a configuration and weights of a model of another library",
      "Of Hugging Face's transformers: Llama, Mistral, Qwen 2 and 3, GPT-2",
      "Example:\n  runtime import hf SmolLM2-135M --output smollm\n"
      "  runtime predict smollm/config.toml --weights smollm/weights.safetensors --prompt Once");
  imported->add_option("FOLDER", *from, "What save_pretrained() wrote: config.json, safetensors")
      ->required();
  imported->callback([from, output] { import_hf(*from, *output); });
  CLI::App* const exported =
      add("export", "Writes a trained model for another library",
          "For Hugging Face's transformers: from_pretrained() loads it",
          "Example:\n  runtime export hf outputs/smollm/20261129-101500 --output tuned");
  exported->add_option("RUN", *from, "The folder of a run, or of an imported model")->required();
  exported->callback([from, output] { export_hf(*from, *output); });
}

void add_tokenize(CLI::App& app) {
  auto arguments = std::make_shared<ConfigArguments>();
  auto output = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Writes the tokens of a text once, as files that any number of ranks read");
  arguments->add_to(*command);
  command->add_option("--output", *output, "The folder to make: train.bin, config.toml")
      ->required();
  command->footer(
      "Example:\n"
      "  runtime tokenize smollm/config.toml --set dataset.path=corpus.txt --output corpus\n"
      "  runtime train corpus/config.toml");
  command->callback([arguments, output] { write_tokens(*arguments, *output); });
}

void add_config(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "config", "Checks a configuration, shows the resolved file, prints the JSON schema");
  command->require_subcommand(1);

  auto check = std::make_shared<ConfigArguments>();
  CLI::App* check_command = command->add_subcommand(
      "check",
      "Loads and checks a file, its model and its table, if the data are one; opens no other data, "
      "and looks for plugins only if the file has keys of one or a format of one");
  check->add_to(*check_command);
  check_command->footer("Example:\n  runtime config check my.toml");
  check_command->callback([check] { check_config(*check); });

  auto show = std::make_shared<ConfigArguments>();
  CLI::App* show_command = command->add_subcommand(
      "show", "Prints the file with extends, presets, overrides and defaults resolved");
  show->add_to(*show_command);
  show_command->footer("Example:\n  runtime config show my.toml --set optimizer.lr=0.1");
  show_command->callback([show] { std::cout << config::to_toml(show->load()) << std::flush; });

  CLI::App* schema_command = command->add_subcommand(
      "schema", "Prints the JSON schema of configuration files, for editors");
  schema_command->footer("Example:\n  runtime config schema > runtime.schema.json");
  schema_command->callback(
      [] { std::cout << config::json_schema(model::layer_types()) << std::endl; });

  command->footer(
      "Examples:\n  runtime config check my.toml\n  runtime config show my.toml --set "
      "optimizer.lr=0.1\n"
      "  runtime config schema > runtime.schema.json");
}

// Becomes the program of a command that this one does not have, or else names the command that was
// probably meant; CLI11 would only say that a command is missing.
void check_command(const CLI::App& app, const std::string& word, char** argv) {
  // The second word of a command may also name a program: `plugins check` is runtime-plugins-check.
  if (word.starts_with('-')) return;
  if (argv[2] != nullptr) {
    if (const auto found = find_command(word + "-" + argv[2])) become(*found, argv + 3);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  if (const auto found = find_command(word)) become(*found, argv + 2);
  for (const ExternalCommand& command : external_commands()) names.push_back(command.name);
  throw ConfigurationError("command '" + word + "' is unknown" +
                           plugins::host::suggestion(word, names) + " (runtime --help)");
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"Trains deep-learning models on the hardware that plugins provide."};
  app.name("runtime");
  app.footer([] {
    return list_of(external_commands()) + installed_configurations() + ".\n" +
           installed_documents() + ".\n\n" + kExamples;
  });
  app.require_subcommand(1);
  app.set_version_flag("--version", RUNTIME_VERSION);
  Outcome outcome;
  add_train(app, outcome);
  add_evaluate(app, outcome);
  add_predict(app);
  add_gradients(app, outcome);
  add_plan(app);
  add_devices(app);
  add_plugins(app);
  add_model(app);
  add_checkpoint(app);
  add_exchange(app);
  add_tokenize(app);
  add_config(app);
  add_completion(app);
  if (argc > 1) check_command(app, argv[1], argv);
  return parse_and_run(app, argc, argv, outcome);
}

}  // namespace runtime::cli
