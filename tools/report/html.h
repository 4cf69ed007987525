// Markup that keeps text and tags apart: text of files and of the command line is always escaped.
#ifndef TOOLS_REPORT_HTML_H_
#define TOOLS_REPORT_HTML_H_

#include <string>
#include <string_view>
#include <vector>

namespace tools::report {

// An attribute of an element; the value is escaped when it is written. A name with an empty value
// is written without one (hidden, open).
struct Attribute {
  std::string_view name;
  std::string value = {};
};

// A piece of HTML or SVG. Text comes in only through text(), which escapes it.
class Html {
 public:
  Html() = default;
  // The text with &, <, >, " and ' escaped and without control characters, which HTML forbids.
  static Html text(std::string_view text);
  // Markup that this program has written itself; never text of an input.
  static Html markup(std::string markup);

  Html& operator+=(const Html& other);
  friend Html operator+(Html left, const Html& right) { return left += right; }
  const std::string& str() const { return markup_; }
  bool empty() const { return markup_.empty(); }

 private:
  std::string markup_;
};

// <name attributes>content</name>.
Html element(std::string_view name, const Html& content,
             const std::vector<Attribute>& attributes = {});
// The same around a text.
Html element(std::string_view name, std::string_view text,
             const std::vector<Attribute>& attributes = {});
// A name that may be broken behind its dots, underscores, colons and slashes.
Html breakable(std::string_view name);
// The text of a <script> that holds JSON: nothing in it can end the element.
Html json_script(std::string_view json);

}  // namespace tools::report

#endif  // TOOLS_REPORT_HTML_H_
