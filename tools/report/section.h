// The sections of a report.
#ifndef TOOLS_REPORT_SECTION_H_
#define TOOLS_REPORT_SECTION_H_

#include <string>
#include <vector>

#include "tools/report/html.h"
#include "tools/report/read_run.h"
#include "tools/report/read_sweep.h"

namespace tools::report {

// A part of the page with a heading, to which the list of contents leads. One without content is
// not written.
struct Section {
  std::string id, title;
  Html content;
};

// What is most often asked: the last and the best values, speed and times, side by side.
Section summary_section(const std::vector<Run>& runs);
// Loss and all metrics over the steps. Elements of the section have identifiers that begin with
// `id`.
Section curves_section(const std::vector<Run>& runs, const std::string& id = "curves",
                       const std::string& title = "Loss and metrics");
// Learning rate, throughput, seconds of an epoch, and what the device has measured.
Section speed_section(const std::vector<Run>& runs);
// Where the time and the memory of a step go.
Section profile_section(const std::vector<Run>& runs);
// What several ranks are worth; `files` are of the command line.
Section scaling_section(const std::vector<Run>& runs, const std::vector<Bench>& files);
// Predicted beside measured values.
Section prediction_section(const std::vector<Run>& runs, const std::vector<Bench>& files);
// Configuration: what differs between the runs, then all of it.
Section settings_section(const std::vector<Run>& runs, const std::string& id = "configuration",
                         const std::string& title = "Configuration");
// Device, build, checkpoints and folder of each run.
Section facts_section(const std::vector<Run>& runs, const std::string& id = "facts",
                      const std::string& title = "Device, build and files");
// The value of each trial against its settings, and all trials as a table.
Section sweep_section(const Sweep& sweep, const std::string& id);
// The values that a sweep may try, how many it has tried, and how it searches.
Section search_section(const Sweep& sweep, const std::string& id);

// "A" for the first run, "Z" for the 26th, then "A1".
std::string key_of(size_t run);
// The key and the name of a run, as tables show it. The key is left out if the run is alone.
Html badge(const std::vector<Run>& runs, size_t run);

}  // namespace tools::report

#endif  // TOOLS_REPORT_SECTION_H_
