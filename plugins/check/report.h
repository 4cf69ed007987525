// The report of `runtime plugins check`: what it prints and the files that it writes.
#ifndef PLUGINS_CHECK_REPORT_H_
#define PLUGINS_CHECK_REPORT_H_

#include <string>
#include <vector>

#include "plugins/check/check.h"

namespace plugins::check {

// The line of one check, for the terminal; a fault takes several lines.
std::string line_of(const Row& row);

// What the rows mean: the models that train, the operations to write next, how many checks passed.
std::string summary_of(const std::vector<Row>& rows);

// All of it as JSON, and as a JUnit file, in which CI systems show each check as a test.
std::string json_of(const Setup& setup, const std::vector<Row>& rows);
std::string junit_of(const Setup& setup, const std::vector<Row>& rows);

// The number of checks that failed.
int failures_in(const std::vector<Row>& rows);

// Returns "" if the plugin can train the preset, else why not.
std::string why_not(const std::string& preset, const std::vector<Row>& rows);

}  // namespace plugins::check

#endif  // PLUGINS_CHECK_REPORT_H_
