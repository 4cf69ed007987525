// CSV tables (RFC 4180: commas, an optional header line, fields in double quotes).
#ifndef RUNTIME_DATA_CSV_H_
#define RUNTIME_DATA_CSV_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/part.h"

namespace runtime::data {

// Which columns of a table are read, and as what.
struct CsvOptions {
  std::vector<std::string> features;  // names, or numbers from 0; empty: all columns but the target
  std::string target;                 // name, or number from 0 (-1: the last column)
  bool classification = true;         // the target is a class label; otherwise a number
  int64_t classes = 0;                // 0: taken from the data
  bool needs_target = true;           // false: a table without the target's column is read as well
  std::optional<bool> header = std::nullopt;  // the first line is one; nothing: see csv_header.h
  bool normalised = false;                    // features keep all their digits (Part::doubles)
  std::vector<std::string> inputs = {};       // columns that stand behind the features
  // Columns that stay texts. With them, `features` are all features, and there may be none.
  std::vector<std::string> texts = {};
};

// A table in memory: features as floats, and targets.
struct CsvTable {
  std::vector<std::string> columns;  // names of the features, or numbers; not of inputs
  std::vector<std::vector<std::string>> texts = {};  // of each sample, by CsvOptions::texts
  Part part;
  bool named = false;    // the table has a header
  bool labelled = true;  // false: there is no column of targets, and all of them are 0
  // Text labels in the order of their class numbers, which is sorted. Empty if labels are integers,
  // which are taken as they are.
  std::vector<std::string> class_names;
};

// Reads a table from text or from a file. `known` is
// the training table, whose columns and classes this table must have, or what is known of it
// (columns, named, class_names and the title of `part`); null if this is the training table. Throws
// DataError that names line and column.
CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options,
                   const CsvTable* known = nullptr);
CsvTable read_csv(const std::string& path, const CsvOptions& options,
                  const CsvTable* known = nullptr);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_CSV_H_
