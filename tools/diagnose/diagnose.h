// Joins what the ranks of a job have left, and says which of them kept the others waiting.
#ifndef TOOLS_DIAGNOSE_DIAGNOSE_H_
#define TOOLS_DIAGNOSE_DIAGNOSE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/watch/collectives_file.h"

namespace tools::diagnose {

using Files = std::vector<runtime::watch::CollectivesFile>;

// Reads rank-*-collectives.json of a folder, in the order of ranks. Throws DataError, which names
// the file, if one cannot be read, two are of one rank or of jobs of other sizes, or there is none.
// A file that is a minute older than the newest is of an earlier question: it is left out, and
// `left_out` gets a line that says so.
Files read_folder(const std::filesystem::path& folder, std::string& left_out);

// The sentence that names the rank to blame, as the job itself would say it.
std::string verdict_of(const Files& files);

// What the ranks that wait for nobody have to do next, by their plans: those that are furthest
// behind, a line each; and, before, which calls of the plans do not fit. "" if no plan is known.
std::string debts_of(const Files& files);

// A line for each rank: its host, the call in which it waits and for how long, or what it has
// completed last.
std::string table_of(const Files& files);

}  // namespace tools::diagnose

#endif  // TOOLS_DIAGNOSE_DIAGNOSE_H_
