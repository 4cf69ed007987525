// The command model: layers with shapes, parameters and FLOPs, without a device.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"
#include "runtime/config/advice.h"
#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/error.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/launch/open_device.h"
#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "runtime/session/session.h"
#include "runtime/step/freeze.h"
#include "runtime/terminal/table.h"
#include "runtime/train/open.h"
#include "runtime/train/plugin_records.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::cli {

namespace {

// A line of the table.
struct LayerRow {
  std::string name, operations, output;
  int64_t parameters = 0, trained = 0;
  double flops = 0;
};

// "[26, 26, 20]" from [1, 26, 26, 20]: without the batch.
std::string shape_of(const graph::Value& value) {
  return graph::to_string(graph::Dims(value.dims.begin() + 1, value.dims.end()));
}

// Consecutive nodes of a layer are one row. Parameters belong to the layer whose node reads them
// first, so that a shared one counts once.
std::vector<LayerRow> rows_of(const model::Network& network,
                              const std::vector<std::string>& freeze) {
  const graph::Graph& graph = network.graph;
  std::vector<LayerRow> rows;
  std::set<graph::ValueId> counted;
  const auto add_parameter = [&](graph::ValueId storage) {
    for (const model::Parameter& parameter : network.parameters) {
      if (graph.storage(parameter.value) != storage || !counted.insert(storage).second) continue;
      const int64_t count = graph::element_count(parameter.file_dims);
      rows.back().parameters += count;
      if (parameter.trainable && !step::matches_any(freeze, parameter.name))
        rows.back().trained += count;
    }
  };
  for (const graph::Node& node : graph.nodes) {
    if (rows.empty() || rows.back().name != node.layer) rows.emplace_back().name = node.layer;
    LayerRow& row = rows.back();
    const std::string operation(node.op);
    if (row.operations.find(operation) == std::string::npos)
      row.operations += (row.operations.empty() ? "" : ", ") + operation;
    row.output = shape_of(graph.value(node.outputs[0]));
    row.flops += graph::flops_of_node(graph, node);
    for (const graph::ValueId input : node.inputs) add_parameter(graph.storage(input));
  }
  return rows;
}

void print(const std::vector<LayerRow>& rows) {
  using Kind = terminal::Column::Kind;
  terminal::Table table({{"layer"},
                         {"operations", Kind::kText, 1},
                         {"output"},
                         {"parameters", Kind::kNumber},
                         {"MFLOP", Kind::kNumber}});
  for (const LayerRow& row : rows) {
    table.add({row.name, row.operations, row.output, std::to_string(row.parameters),
               fmt::format("{:.3f}", row.flops / 1e6)});
  }
  table.print();
}

// Looks for plugins only if one of them has to read the samples or has keys in the file.
void check_plugins(const config::Config& config) {
  const bool keys = !config.device.options.empty() || !config.comm.options.empty() ||
                    !config.dataset.options.empty();
  if (!keys && !data::is_of_plugin(config.dataset.format)) return;
  const auto registry = launch::open_registry(config, host_services());
  session::print_unused_tables(config, *registry);
  train::check_plugin_format(config, *registry);
}

bool is_here(const data::DatasetOptions& options) {
  std::error_code ignored;
  return std::filesystem::exists(options.path, ignored) &&
         (options.validation_path.empty() ||
          std::filesystem::exists(options.validation_path, ignored));
}

// Whether this machine, which may not be the one that trains, has the files of the data.
bool has_data(const config::Config& config, const char* search_path) {
  try {
    return is_here(train::data_options(config, search_path));
  } catch (const DataError&) {  // a relative path is in none of the folders
    return false;
  }
}

// Reads a table: only its fields tell that a column has words, or that one of them is empty.
void check_table(const config::Config& config) {
  if (!data::is_table(config.dataset.format)) return;
  const char* const search_path = std::getenv("RUNTIME_DATA_PATH");
  if (!has_data(config, search_path)) {
    std::cerr << "note: the table " << config.dataset.path
              << " (or that of dataset.validation_path) was not found and not looked at"
              << std::endl;
    return;
  }
  const auto train = train::open_data(config, search_path).train;
  train::check_model(config, train->spec());
  const std::string advice = train::target_advice(config, *train);
  if (!advice.empty()) std::cerr << "warning: " << advice << std::endl;
}

}  // namespace

void show_model(const ConfigArguments& arguments) {
  const config::Config config = arguments.load();
  const model::Model model = model::model_from_config(config.model);
  const model::Network network = model::build_network(model, {.training = false});
  const std::vector<LayerRow> rows = rows_of(network, config.model.freeze);
  int64_t parameters = 0, trained = 0;
  double flops = 0;
  for (const LayerRow& row : rows) {
    parameters += row.parameters;
    trained += row.trained;
    flops += row.flops;
  }
  print(rows);
  say("\ninput {}: {} parameters ({:.2f} MiB in {}), of which {} are trained; {:.3f} MFLOP a "
      "sample forward\n",
      graph::to_string(model.input), parameters,
      static_cast<double>(parameters) * config.training.bytes_per_weight() / (1 << 20),
      config.training.dtype, trained, flops / 1e6);
}

void check_config(const ConfigArguments& arguments) {
  const config::Config config = arguments.load();
  const model::Network network =
      model::build_network(model::model_from_config(config.model), {.training = false});
  step::check_patterns(config.model.freeze, config.optimizer, network.parameters);
  check_plugins(config);
  check_table(config);
  for (const std::string& sentence : config::advice(config))
    std::cerr << "warning: " << sentence << std::endl;
  std::cout << arguments.path << ": ok" << std::endl;
}

}  // namespace runtime::cli
