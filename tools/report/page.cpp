// Puts the sections of runs and sweeps together with the style and the script.
#include "tools/report/page.h"

#include <cstdio>
#include <set>
#include <system_error>

#include "runtime/error.h"
#include "tools/report/assets.h"
#include "tools/report/section.h"

namespace tools::report {

namespace {

namespace fs = std::filesystem;

constexpr size_t kBestRuns = 8;  // of a sweep, whose curves are drawn

// The runs of the best trials, as far as their folders are there and can be read: a trial that has
// failed may have left anything.
std::vector<Run> best_runs(const Sweep& sweep) {
  std::vector<Run> runs;
  for (const Trial& trial : sweep.trials) {
    const fs::path folder = folder_of(sweep, trial);
    if (folder.empty()) continue;
    try {
      Run run = read_run(folder);
      run.name = "trial " + std::to_string(trial.number);
      runs.push_back(std::move(run));
    } catch (const runtime::Error& error) {
      std::fprintf(stderr, "note: the run of trial %s is left out: %s\n",
                   std::to_string(trial.number).c_str(), error.what());
    }
    if (runs.size() == kBestRuns) break;
  }
  return runs;
}

// Those whose device and build are not the same as those of the first one are shown beside it.
std::vector<Run> runs_by_device(const std::vector<Run>& best) {
  const auto devices = [](const Run& run) {
    std::string text;
    for (const Fact& fact : run.facts)
      if (fact.name.starts_with("device")) text += fact.value + "\n";
    return text;
  };
  std::vector<Run> runs;
  std::set<std::string> seen;
  for (const Run& run : best)
    if (seen.insert(devices(run)).second) runs.push_back(run);
  return runs;
}

void add_sweep(const Sweep& sweep, const std::string& id, std::vector<Section>& sections) {
  sections.push_back(sweep_section(sweep, id));
  const std::vector<Run> best = best_runs(sweep);
  std::vector<Run> drawn = best;
  std::erase_if(drawn, [](const Run& run) { return run.metrics.curves.empty(); });
  sections.push_back(curves_section(drawn, id + "-best", "Best trials of " + sweep.name));
  sections.push_back(search_section(sweep, id + "-search"));
  if (best.empty()) return;
  sections.push_back(
      settings_section({best[0]}, id + "-configuration", "Configuration of " + best[0].name));
  sections.push_back(
      facts_section(runs_by_device(best), id + "-facts", "Device, build and files of the trials"));
}

std::vector<Section> sections_of(const Inputs& inputs) {
  std::vector<Section> sections;
  for (size_t i = 0; i < inputs.sweeps.size(); ++i) {
    const std::string id = "sweep" + (i == 0 ? "" : std::to_string(i + 1));
    add_sweep(inputs.sweeps[i], id, sections);
  }
  if (!inputs.runs.empty()) {
    for (Section& section :
         std::vector<Section>{summary_section(inputs.runs), curves_section(inputs.runs),
                              speed_section(inputs.runs), profile_section(inputs.runs)})
      sections.push_back(std::move(section));
  }
  sections.push_back(scaling_section(inputs.runs, inputs.benches));
  sections.push_back(prediction_section(inputs.runs, inputs.benches));
  if (!inputs.runs.empty()) {
    sections.push_back(settings_section(inputs.runs));
    sections.push_back(facts_section(inputs.runs));
  }
  std::erase_if(sections, [](const Section& section) { return section.content.empty(); });
  return sections;
}

std::string title_of(const Inputs& inputs) {
  if (inputs.runs.size() == 1 && inputs.sweeps.empty()) return inputs.runs[0].name;
  if (inputs.runs.empty() && inputs.sweeps.size() == 1) return "Sweep " + inputs.sweeps[0].name;
  if (inputs.runs.empty() && inputs.sweeps.empty())
    return inputs.benches.empty() ? "Report" : inputs.benches[0].source;
  std::string title;
  if (!inputs.runs.empty())
    title = std::to_string(inputs.runs.size()) + (inputs.runs.size() == 1 ? " run" : " runs");
  if (!inputs.sweeps.empty())
    title += (title.empty() ? "" : ", ") + std::to_string(inputs.sweeps.size()) +
             (inputs.sweeps.size() == 1 ? " sweep" : " sweeps");
  return title;
}

// The controls of all charts, which only the script shows.
Html controls() {
  Html axis;
  for (const char* over : {"step", "epoch", "time"}) {
    axis += element("button", over,
                    {{"type", "button"},
                     {"data-over", over},
                     {"aria-pressed", std::string(over) == "step" ? "true" : "false"}});
  }
  const Html smooth =
      element("label", Html::text("smoothing ") +
                           Html::markup("<input type=\"range\" min=\"0\" max=\"0.99\" "
                                        "step=\"0.01\" value=\"0\">") +
                           element("output", "0"));
  return element(
      "div",
      element("span", "over") +
          element("div", axis, {{"class", "choice"}, {"role", "group"}, {"aria-label", "x axis"}}) +
          smooth,
      {{"class", "controls needs-script"}, {"hidden"}});
}

Html header(const Inputs& inputs, const std::vector<Section>& sections) {
  Html links;
  for (const Section& section : sections)
    links += element("li", element("a", section.title, {{"href", "#" + section.id}}));
  Html below;
  if (inputs.runs.size() == 1) {
    const std::string text = inputs.runs[0].settings.find("job.description");
    if (text.size() > 2) below = element("p", text.substr(1, text.size() - 2));
  }
  return element("header", element("p", "runtime report", {{"class", "product"}}) +
                               element("h1", title_of(inputs)) + below +
                               element("nav", element("ul", links), {{"aria-label", "contents"}}));
}

// No request leaves the page, whatever it contains.
constexpr char kPolicy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">";

}  // namespace

Inputs read_inputs(const std::vector<fs::path>& paths) {
  if (paths.size() > kMostPaths) {
    throw runtime::ConfigurationError("got " + std::to_string(paths.size()) +
                                      " paths, expected at most " + std::to_string(kMostPaths) +
                                      "; compare fewer runs at a time");
  }
  Inputs inputs;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::is_regular_file(path, error)) {
      inputs.benches.push_back(read_bench(path));
    } else if (is_sweep_folder(path)) {
      inputs.sweeps.push_back(read_sweep(path));
    } else {
      inputs.runs.push_back(read_run(path));
    }
  }
  make_names_differ(inputs.runs);
  return inputs;
}

std::string page(const Inputs& inputs) {
  const std::vector<Section> sections = sections_of(inputs);
  Html main;
  for (const Section& section : sections) {
    const Html bar = section.id == "curves" || section.id.ends_with("-best") ? controls() : Html();
    main += element(
        "section",
        element("h2", section.title, {{"id", section.id + "-title"}}) + bar + section.content,
        {{"id", section.id}, {"aria-labelledby", section.id + "-title"}});
  }
  const Html body = header(inputs, sections) + element("main", main) +
                    element("div", Html(), {{"id", "tip"}, {"role", "status"}, {"hidden"}}) +
                    Html::markup("<script>" + std::string(kScript) + "</script>");
  const Html head =
      Html::markup(std::string("<meta charset=\"utf-8\">") + kPolicy +
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
                   "<meta name=\"color-scheme\" content=\"light dark\">") +
      element("title", title_of(inputs) + " - runtime report") +
      Html::markup("<style>" + std::string(kStyle) + "</style>");
  return "<!DOCTYPE html>\n" +
         element("html", element("head", head) + element("body", body), {{"lang", "en"}}).str() +
         "\n";
}

}  // namespace tools::report
