// Tables as text (RFC 4180: commas, optional header line, fields in double quotes).
#ifndef RUNTIME_DATA_CSV_H_
#define RUNTIME_DATA_CSV_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/part.h"

namespace runtime::data {

struct CsvOptions {
  std::vector<std::string> features;  // names, or numbers from 0; empty: all but the target
  std::string target;                 // name, or number from 0; negative: from the last, -1
  bool classification = true;
  int64_t classes = 0;  // 0: from the data
};

struct CsvTable {
  std::vector<std::string> columns;  // names of the feature columns; their numbers without header
  Part part;
  // Text labels: the class of each, in the order of class numbers (sorted). Empty: integer labels,
  // taken as they are.
  std::vector<std::string> class_names;
};

// A first line without any number is the header. `known`: the training table, whose classes and
// columns this one must have; null: none. Throws DataError naming line and column.
CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                   const CsvTable* known = nullptr);
CsvTable read_csv(const std::string& path, const CsvOptions& options,
                  const CsvTable* known = nullptr);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CSV_H_
