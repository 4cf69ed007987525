// Reads the file in which a rank has left its last collectives.
#ifndef TOOLS_DIAGNOSE_READ_H_
#define TOOLS_DIAGNOSE_READ_H_

#include <string>

#include "runtime/watch/collectives_file.h"

namespace tools::diagnose {

// Throws DataError, which says what is wrong, if the text is not such a file. It is read with
// distrust.
runtime::watch::CollectivesFile read_collectives(const std::string& text);

}  // namespace tools::diagnose

#endif  // TOOLS_DIAGNOSE_READ_H_
