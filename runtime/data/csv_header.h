// Tells whether a table begins with the names of its columns.
#ifndef RUNTIME_DATA_CSV_HEADER_H_
#define RUNTIME_DATA_CSV_HEADER_H_

#include <string>
#include <vector>

#include "runtime/data/csv_reader.h"

namespace runtime::data {

// What is known of the columns of a table before it is read.
struct ColumnHints {
  std::string target;                 // by name, or by number from 0 (-1: the last)
  std::vector<std::string> features;  // those that are asked for, by name or number
  std::vector<std::string> columns;   // all columns, if there may be no target; empty: not known
};

// Returns whether the first record that `reader` gives is a header, which it is if
//  - none of its fields is a number, or
//  - a column that the hints ask for by name is one of its fields, or
//  - its fields are hints.columns in any order, or
//  - its target is no number, and the targets below are.
// Reads as many records as it takes to tell; throws DataError as the reader does.
bool begins_with_header(CsvReader& reader, const ColumnHints& hints);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CSV_HEADER_H_
