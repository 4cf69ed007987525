// Guesses from the first records, and from the columns asked for, whether the first one is a
// header.
#include "runtime/data/csv_header.h"

#include <algorithm>
#include <cstdint>

namespace runtime::data {
namespace {

using Fields = std::vector<std::string>;

bool is_number(const std::string& field) { return to_number(field).has_value(); }

// A number may be meant as the place of a column; all else is a name.
bool names_a_column(const Fields& fields, const std::string& wanted) {
  return !to_integer(wanted) && std::find(fields.begin(), fields.end(), wanted) != fields.end();
}

bool names_a_column(const Fields& fields, const ColumnHints& hints) {
  return names_a_column(fields, hints.target) ||
         std::any_of(hints.features.begin(), hints.features.end(),
                     [&](const std::string& feature) { return names_a_column(fields, feature); });
}

// Whether the fields below `first` in the column `target` are numbers, and that of `first` is none.
bool only_target_is_no_number(CsvReader& reader, const Fields& first, int64_t target) {
  const auto width = static_cast<int64_t>(first.size());
  if (target < -width || target >= width) return false;
  const auto column = static_cast<std::size_t>(target < 0 ? target + width : target);
  if (first[column].empty() || is_number(first[column])) return false;
  int64_t numbers = 0;
  for (CsvRecord record; reader.next(record); ++numbers) {
    if (record.fields.size() == first.size() && !is_number(record.fields[column])) return false;
  }
  return numbers > 0;
}

}  // namespace

bool begins_with_header(CsvReader& reader, const ColumnHints& hints) {
  CsvRecord record;
  if (!reader.next(record)) return false;
  const Fields first = record.fields;
  if (std::none_of(first.begin(), first.end(), is_number)) return true;
  if (names_a_column(first, hints)) return true;
  if (std::is_permutation(first.begin(), first.end(), hints.columns.begin(), hints.columns.end()))
    return true;
  const auto target = to_integer(hints.target);
  return target && only_target_is_no_number(reader, first, *target);
}

}  // namespace runtime::data
