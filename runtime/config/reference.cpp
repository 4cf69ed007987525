// Writes the tables of keys for configs/README.md.
#include "runtime/config/reference.h"

namespace runtime::config {
namespace {

std::string default_of(const Key& key) {
  if (key.required) return "required";
  // A file may not give the 0 of such a key: it says that the key is not given.
  const bool none = key.default_text == "0" && !key.range.contains(0);
  return none || key.default_text.empty() ? "none" : "`" + key.default_text + "`";
}

// Markdown would take angle brackets for HTML.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '<' ? std::string("&lt;") : std::string(1, c);
  return result;
}

std::string row(const Key& key) {
  return "| `" + key.name + "` | " + escaped(describe_type(key)) + " | " + default_of(key) + " | " +
         escaped(key.documentation) + " |\n";
}

std::string table(const std::vector<Key>& keys) {
  std::string text = "| key | type and range | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : keys) text += row(key);
  return text + "\n";
}

std::string exclusive_notes(const std::string& section) {
  std::string text;
  for (const Exclusive& pair : exclusives()) {
    if (pair.section != section) continue;
    text += "Either `" + pair.first + "` or `" + pair.second +
            "`: both in one file are an error, in a later file the one replaces the other.\n\n";
  }
  return text;
}

// The keys of the tables of a section's lists.
std::string tables_of_lists(const Section& section) {
  std::string text;
  for (const Key& key : section.keys) {
    if (!key.item_keys.empty())
      text += "### [[" + section.name + "." + key.name + "]]\n\n" + table(key.item_keys);
  }
  return text;
}

}  // namespace

std::string reference_markdown(const LayerTypes& types) {
  std::string text = "\n## Before the sections\n\n" + table({extends_key()});
  for (const Section& section : sections()) {
    text += "## [" + section.name + "]\n\n" + escaped(section.documentation) + "\n\n" +
            exclusive_notes(section.name) + table(section.keys) + tables_of_lists(section);
  }
  text +=
      "## Layers\n\nA layer is a table with `type` and the keys of that type. A type "
      "`\"<plugin>.<name>\"` is one that a plugin brings; `runtime plugins info` lists its "
      "keys.\n\n";
  for (const LayerType& type : types) {
    text += "### " + type.name + "\n\n" + type.documentation + "\n\n" + table(type.keys);
  }
  text.pop_back();
  return text;
}

}  // namespace runtime::config
