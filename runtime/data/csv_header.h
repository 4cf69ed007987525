// Tells whether a table begins with the names of its columns.
#ifndef RUNTIME_DATA_CSV_HEADER_H_
#define RUNTIME_DATA_CSV_HEADER_H_

#include "runtime/data/csv.h"
#include "runtime/data/csv_reader.h"

namespace runtime::data {

// Returns whether the first record that `reader` gives is a header, as the options say, or else if
//  - none of its fields is a number, or
//  - a column that the options name is one of its fields, or
//  - the table may lack the target, and the fields are the named columns of `known` in any order,
//  or
//  - its target is no number, and the targets below are.
// `known` may be null. Reads as many records as it takes to tell; throws DataError as the reader.
bool begins_with_header(CsvReader& reader, const CsvOptions& options, const CsvTable* known);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CSV_HEADER_H_
