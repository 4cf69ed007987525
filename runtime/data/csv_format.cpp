#include "runtime/data/csv.h"
#include "runtime/data/formats.h"
#include "runtime/error.h"

namespace runtime::data {

Parts load_csv(const std::string& train, const std::string& validation,
               const DatasetOptions& options) {
  if (options.target.empty()) {
    throw ConfigurationError(
        "dataset.target is missing; expected the name of the target column of " + train +
        ", or its number from 0 (-1: the last one)");
  }
  const CsvOptions csv{options.features, options.target, options.classification, options.classes};
  CsvTable table = read_csv(train, csv);
  Parts parts;
  if (!validation.empty()) parts.validation = read_csv(validation, csv, &table).part;
  parts.train = std::move(table.part);
  return parts;
}

}  // namespace runtime::data
