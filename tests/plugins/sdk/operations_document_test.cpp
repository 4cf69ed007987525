// The tables of plugins/operations.md against the rows of rt/sdk/definitions.h.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "rt/sdk/definitions.h"

namespace rt::sdk {
namespace {

using Names = std::set<std::string>;

// What a line of a table says about one operation.
struct Line {
  std::string operands;  // "x, gamma, optionally beta -> y; saved", without dims and types
  Names attributes;
  bool mandatory = false;
};

std::vector<std::string> split(const std::string& text, const std::regex& separator) {
  return {std::sregex_token_iterator(text.begin(), text.end(), separator, -1), {}};
}

// Reads the cell of the attributes: names, "pad_*" for all with this beginning, "same" for those of
// the line before, and "as conv2d" or "those of conv2d" for those of that operation.
Names attributes_of(const std::string& cell, const Names& before,
                    const std::map<std::string, Line>& lines, const Names& all) {
  static const std::regex remark(R"( \(.*?\))"), other("(?:as|those of) ([a-z0-9_]+)");
  Names names;
  for (const std::string& word : split(std::regex_replace(cell, remark, ""), std::regex(", "))) {
    std::smatch match;
    if (word == "same") {
      names.insert(before.begin(), before.end());
    } else if (std::regex_match(word, match, other)) {
      const Names& those = lines.at(match[1]).attributes;
      names.insert(those.begin(), those.end());
    } else if (word.ends_with("*")) {
      for (const std::string& name : all)
        if (name.starts_with(word.substr(0, word.size() - 1))) names.insert(name);
    } else if (!word.empty()) {
      names.insert(word);
    }
  }
  return names;
}

Names all_attributes() {
  Names names;
  for (const std::span<const Definition> family : kDefinitions) {
    for (const Definition& row : family)
      for (const AttributeDefinition& a : row.attributes) names.emplace(a.name);
  }
  return names;
}

// Reads every table whose head begins with "operation" and "inputs -> outputs".
std::map<std::string, Line> read_document() {
  static const std::regex bar(R"( *\| *)"), name("`([a-z0-9_]+)`"),
      dims(R"( \[[^\]]*\]| \(T\)| int(?:32|64))");
  std::map<std::string, Line> lines;
  std::ifstream document(OPERATIONS_DOCUMENT);
  const Names all = all_attributes();
  Names before;
  bool inside = false, has_attributes = false;
  for (std::string text; std::getline(document, text);) {
    const std::string head = "| operation | inputs -> outputs |";
    if (text.starts_with(head)) {
      inside = true;
      has_attributes = text.starts_with(head + " attributes |");
    }
    inside &= text.starts_with("|");
    if (!inside || !text.starts_with("| `")) continue;
    const std::vector<std::string> cells = split(text, bar);
    Line line{std::regex_replace(cells.at(2), dims, ""), {}, cells[1].ends_with("**M**")};
    if (has_attributes) line.attributes = attributes_of(cells.at(3), before, lines, all);
    before = line.attributes;
    for (std::sregex_iterator it(cells[1].begin(), cells[1].end(), name), end; it != end; ++it)
      EXPECT_TRUE(lines.emplace((*it)[1], line).second) << "two lines of " << (*it)[1];
  }
  return lines;
}

std::string text_of(const auto& operands) {
  std::string text;
  for (const OperandDefinition& operand : operands) {
    const std::string name(operand.name);
    if (!text.empty()) text += ", ";
    if (operand.is(OperandDefinition::kOptional)) text += "optionally ";
    text += operand.is(OperandDefinition::kRepeated) ? name + "0, " + name + "1, ..." : name;
  }
  return text;
}

std::string text_of(const Definition& row) {
  const bool saves = row.has(Definition::kSavesData);
  const bool backward = row.name.find("_backward") != std::string_view::npos;
  std::string text = text_of(row.inputs);
  if (saves && backward) text += ", saved";
  return text + (text.empty() ? "-> " : " -> ") + text_of(row.outputs) +
         (saves && !backward ? "; saved" : "");
}

TEST(OperationsDocument, HasTheOperandsAndAttributesOfTheRows) {
  const std::map<std::string, Line> lines = read_document();
  size_t rows = 0;
  for (const std::span<const Definition> family : kDefinitions) {
    for (const Definition& row : family) {
      const auto found = lines.find(std::string(row.name));
      ASSERT_NE(found, lines.end()) << "operations.md has no line of " << row.name;
      SCOPED_TRACE(row.name);
      EXPECT_EQ(found->second.operands, text_of(row));
      EXPECT_EQ(found->second.mandatory, row.has(Definition::kMandatory));
      Names attributes;
      for (const AttributeDefinition& a : row.attributes) attributes.emplace(a.name);
      EXPECT_EQ(found->second.attributes, attributes);
      ++rows;
    }
  }
  EXPECT_EQ(rows, lines.size()) << "operations.md has a line that is no operation";
}

}  // namespace
}  // namespace rt::sdk
