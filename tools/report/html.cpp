// Escapes text, and builds elements and attributes.
#include "tools/report/html.h"

#include <algorithm>
#include <utility>

#include "tools/plot/markup.h"

namespace tools::report {

Html Html::text(std::string_view text) { return markup(plot::escaped(text)); }

Html Html::markup(std::string markup) {
  Html html;
  html.markup_ = std::move(markup);
  return html;
}

Html& Html::operator+=(const Html& other) {
  markup_ += other.markup_;
  return *this;
}

Html element(std::string_view name, const Html& content, const std::vector<Attribute>& attributes) {
  std::string out = "<" + std::string(name);
  for (const Attribute& a : attributes) {
    out += " " + std::string(a.name);
    if (!a.value.empty()) out += "=\"" + plot::escaped(a.value) + "\"";
  }
  out += ">" + content.str() + "</" + std::string(name) + ">";
  return Html::markup(std::move(out));
}

Html element(std::string_view name, std::string_view text,
             const std::vector<Attribute>& attributes) {
  return element(name, Html::text(text), attributes);
}

Html breakable(std::string_view name) {
  Html html;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find_first_of("._:/", begin), name.size() - 1) + 1;
    html += Html::text(name.substr(begin, end - begin));
    if (end < name.size()) html += Html::markup("<wbr>");
    begin = end;
  }
  return html;
}

Html json_script(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return Html::markup("<script type=\"application/json\">" + safe + "</script>");
}

}  // namespace tools::report
