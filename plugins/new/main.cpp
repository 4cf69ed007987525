// The program runtime-plugins-new, which is `runtime plugins new`: makes the folder of a new
// plugin.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "plugins/new/project.h"

namespace {

namespace create = plugins::create;
namespace fs = std::filesystem;

// The exit codes of runtime/error.h.
enum ExitCode { kDone = 0, kInternal = 1, kConfiguration = 2 };

std::string help() {
  std::string text =
      "Makes the folder of a new plugin: sources that build, a README, a workflow for "
      "CI.\n\nkinds:\n";
  for (const create::Kind& kind : create::kinds())
    text += fmt::format("  {:<14} {}\n", kind.word, kind.what);
  return text +
         "\nexamples:\n  runtime plugins new --kind device my_device\n"
         "  runtime plugins new --kind communicator my_network --output ~/my_network";
}

// The prefix of which this program is <prefix>/libexec/runtime/runtime-plugins-new.
fs::path installed_prefix() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
}

fs::path installed_templates() { return installed_prefix() / "share/doc/runtime/plugins/examples"; }

void print_next(const create::Project& project) {
  const std::string folder = project.output.string();
  fmt::print(
      "next:\n  cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH=\"{2}\" && cmake --build {0}/build\n"
      "  runtime plugins check {0}/build/lib/runtime/plugins/lib{1}.so\n"
      "  RUNTIME_PLUGIN_PATH=$(realpath {0}/build/lib/runtime/plugins) runtime plugins info {1}\n"
      "then read {0}/README.md\n",
      folder, project.name, installed_prefix().string());
}

int run(int argc, char** argv) {
  CLI::App app(help(), "runtime plugins new");
  create::Project project;
  std::string output;
  app.add_option("--kind", project.kind, "What the plugin brings")->required();
  app.add_option("NAME", project.name, "The plugin's name, for example my_device")->required();
  app.add_option("--output", output, "The folder to make; by default NAME in this folder");
  app.set_version_flag("--version", RUNTIME_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw create::Refusal(std::string(error.what()) + "; see runtime plugins new --help");
  }
  project.templates = installed_templates();
  project.output = output.empty() ? fs::path(project.name) : fs::path(output);
  for (const fs::path& file : create::make_project(project))
    fmt::print("{}\n", (project.output / file).string());
  print_next(project);
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const create::Refusal& refusal) {
    std::fprintf(stderr, "error: %s\n", refusal.what());
    return kConfiguration;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kInternal;
  }
}
