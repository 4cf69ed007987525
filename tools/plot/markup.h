// Text as it stands in HTML and SVG.
#ifndef TOOLS_PLOT_MARKUP_H_
#define TOOLS_PLOT_MARKUP_H_

#include <string>
#include <string_view>

namespace tools::plot {

// Returns the text with the signs of markup as entities, also for a value in quotes. Control
// characters, which no document may have, become U+FFFD, the replacement character; new lines and
// tabs stay.
std::string escaped(std::string_view text);

}  // namespace tools::plot

#endif  // TOOLS_PLOT_MARKUP_H_
