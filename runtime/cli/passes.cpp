// Prints what each pass makes of the step, and writes the graphs.
#include "runtime/cli/passes.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "runtime/cli/say.h"
#include "runtime/error.h"
#include "runtime/graph/print.h"
#include "runtime/system/atomic_file.h"
#include "runtime/terminal/table.h"

namespace runtime::cli {

namespace {

terminal::Table make_table() {
  using Kind = terminal::Column::Kind;
  return terminal::Table({{"pass"},
                          {"operations", Kind::kNumber},
                          {"collectives", Kind::kNumber, 1},
                          {"values", Kind::kNumber},
                          {"MiB", Kind::kNumber},
                          {"GFLOP", Kind::kNumber}});
}

void add_line(terminal::Table& table, const char* pass, const graph::Graph& graph) {
  std::set<graph::ValueId> used;  // buffers and the temporaries that nodes read or write
  int64_t collectives = 0;
  double flops = 0;
  for (const graph::Node& node : graph.nodes) {
    collectives += node.collective && !node.collective->wait;
    flops += graph::flops(graph, node);
    for (const auto* operands : {&node.inputs, &node.outputs}) {
      for (graph::ValueId v : *operands) {
        if (v != graph::kNone) used.insert(graph.storage(v));
      }
    }
  }
  double bytes = 0;
  for (graph::ValueId v : used)
    bytes += static_cast<double>(graph::canonical_bytes(graph.value(v)));
  table.add({pass, std::to_string(graph.nodes.size()), std::to_string(collectives),
             std::to_string(used.size()), fmt::format("{:.2f}", bytes / (1 << 20)),
             fmt::format("{:.3f}", flops / 1e9)});
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw DataError("--dump-graph: cannot make the folder " + folder.string() + ": " +
                    error.message() + "; give a folder that can be written");
  }
}

}  // namespace

void show_passes(train::StepPrograms& programs, const PlanArguments& arguments) {
  const std::filesystem::path folder = arguments.dump_graph;
  if (!folder.empty()) make_folder(folder);
  terminal::Table table = make_table();
  int number = 0;
  programs.any_compiled([&](const char* pass, const step::Step& step) {
    add_line(table, pass, step.graph);
    if (folder.empty()) return;
    // For example "04-split_tensors".
    const std::filesystem::path stem = folder / fmt::format("{:02}-{}", ++number, pass);
    system::write_file(stem.string() + ".txt", graph::to_text(step.graph));
    system::write_file(stem.string() + ".dot", graph::to_dot(step.graph));
  });
  if (arguments.passes) {
    table.print();
    say("values: buffers and intermediate tensors that operations use; MiB: of all of them, before "
        "memory is shared\n\n");
  }
  if (!folder.empty())
    say("{} graphs are in {} (text and Graphviz); next: diff two of them\n\n", number,
        folder.string());
}

}  // namespace runtime::cli
