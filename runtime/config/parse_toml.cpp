#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "runtime/config/value.h"

namespace runtime::config {
namespace {

using File = std::shared_ptr<const std::string>;

// toml++ limits nested arrays and inline tables but not the parts of a dotted key, and frees a
// tree by recursion. So the depth is bounded before it sees the text. Knows just enough of TOML:
// strings and comments hide brackets and dots. Where this reading and TOML's part, the text is
// not TOML, and toml++ stops there.
class DepthCheck {
 public:
  DepthCheck(std::string_view text, const File& file) : text_(text), file_(file) {}

  void run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        skip_comment();
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        count(c);
        ++at_;
      }
    }
  }

 private:
  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  void skip_string(char quote) {
    const std::string three(3, quote);
    if (text_.substr(at_, 3) == three) {
      skip_until(three, quote == '"');
      while (at_ < text_.size() && text_[at_] == quote) ++at_;  // """x""""" ends in quotes
    } else {
      skip_until(std::string(1, quote), quote == '"');
    }
  }

  void skip_until(const std::string& end, bool escapes) {
    at_ += end.size();
    while (at_ < text_.size() && text_.substr(at_, end.size()) != end) {
      if (end.size() == 1 && text_[at_] == '\n') return;  // an error that toml++ reports
      if (text_[at_] == '\n') next_line();
      at_ +=
          escapes && text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n' ? 2 : 1;
    }
    at_ = std::min(text_.size(), at_ + end.size());
  }

  void count(char c) {
    if (c == '.') {
      if (++parts_ >= kMaxKeyParts) refuse("dotted key with more parts than", kMaxKeyParts);
      return;
    }
    if (c == '[' || c == '{') {
      if (++depth_ > kMaxDepth) refuse("values nested deeper than", kMaxDepth);
    }
    if (c == ']' || c == '}') --depth_;
    if (c == '\n') next_line();
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') {
      parts_ = 0;
    }
  }

  void next_line() {
    ++line_;
    line_start_ = at_ + 1;
  }

  [[noreturn]] void refuse(const char* what, int limit) const {
    fail({file_, line_, static_cast<int>(at_ - line_start_) + 1}, "",
         std::string(what) + " " + std::to_string(limit) + "; flatten it");
  }

  std::string_view text_;
  File file_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  int depth_ = 0;
  int parts_ = 0;
};

Position position_of(const toml::source_region& region, const File& file) {
  return {file, std::max(1, static_cast<int>(region.begin.line)),
          std::max(1, static_cast<int>(region.begin.column))};
}

Value convert(const toml::node& node, const File& file);

void convert_array(const toml::array& array, const File& file, Value& value) {
  value.kind = Value::Kind::kArray;
  value.items.reserve(array.size());
  for (const toml::node& item : array) value.items.push_back(convert(item, file));
}

void convert_table(const toml::table& table, const File& file, Value& value) {
  value.kind = Value::Kind::kTable;
  value.members.reserve(table.size());
  for (const auto& [key, node] : table) {
    value.members.push_back(
        {std::string(key.str()), position_of(key.source(), file), convert(node, file)});
  }
}

Value convert(const toml::node& node, const File& file) {
  Value value;
  value.position = position_of(node.source(), file);
  if (const auto* table = node.as_table()) {
    convert_table(*table, file, value);
  } else if (const auto* array = node.as_array()) {
    convert_array(*array, file, value);
  } else if (const auto* string = node.as_string()) {
    value.kind = Value::Kind::kString;
    value.string = string->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Value::Kind::kInteger;
    value.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    value.kind = Value::Kind::kNumber;
    value.number = number->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Value::Kind::kBoolean;
    value.boolean = boolean->get();
  } else {
    value.kind = Value::Kind::kDate;
  }
  return value;
}

}  // namespace

Value parse_toml(std::string_view text, const std::string& file) {
  const File name = std::make_shared<const std::string>(file);
  if (text.size() > kMaxTextBytes) {
    fail({name, 1, 1}, "",
         "configuration of " + std::to_string(text.size()) + " bytes, at most " +
             std::to_string(kMaxTextBytes) + " are read; is this a TOML file?");
  }
  DepthCheck(text, name).run();
  try {
    return convert(toml::parse(text, file), name);
  } catch (const toml::parse_error& error) {
    fail(position_of(error.source(), name), "",
         "not valid TOML: " + std::string(error.description()) + "; correct the syntax here");
  }
}

}  // namespace runtime::config
