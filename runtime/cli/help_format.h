// How --help fits the terminal.
#ifndef RUNTIME_CLI_HELP_FORMAT_H_
#define RUNTIME_CLI_HELP_FORMAT_H_

#include <cstddef>
#include <memory>
#include <string>

namespace CLI {
class FormatterBase;
}

namespace runtime::cli {

// Breaks the lines of a help text that are longer than `columns` at spaces. The rest of a line that
// has a name and a description is indented as far as the description, which begins at `indent`;
// that of other lines by four more than the line. A broken command of an example ends in a
// backslash, so that it can be pasted.
std::string wrapped(const std::string& text, size_t columns, size_t indent);

// Returns a formatter for a standard output that has so many columns; null where it is no terminal,
// because programs that read the text (completion, manual pages) expect whole lines.
std::shared_ptr<CLI::FormatterBase> help_format();

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_HELP_FORMAT_H_
