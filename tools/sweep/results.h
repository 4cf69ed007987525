// What a sweep has found: a table, the best settings, a plot and files.
#ifndef TOOLS_SWEEP_RESULTS_H_
#define TOOLS_SWEEP_RESULTS_H_

#include <string>
#include <vector>

#include "tools/plot/plot.h"
#include "tools/sweep/records.h"
#include "tools/sweep/sweep_file.h"

namespace tools::sweep {

// Returns the records as a table with one line each, in their order, and the errors of those that
// failed below it. `columns`: of the terminal; 0: any number.
std::string table_of(const Sweep& sweep, const std::vector<Record>& ranking, int columns = 0);

// Returns the monitor over the parameter that has the most different values, all of them numbers
// (over the numbers of the trials if there is none), as one series for each combination of the
// others that are not sampled from a range. An axis is logarithmic if its values are above 0 and
// span more than a factor of 50.
plot::Plot plot_of(const Sweep& sweep, const std::vector<Record>& ranking);

// Prints table, plot and the best settings as TOML to the standard output, and writes results.json
// and results.svg into the sweep's folder. Throws DataError if a file cannot be written.
void show_results(const Sweep& sweep, const std::string& folder,
                  const std::vector<Record>& ranking);

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_RESULTS_H_
