// The style sheet and the script of the page: page.css and page.js, which the build puts into the
// program.
#ifndef TOOLS_REPORT_ASSETS_H_
#define TOOLS_REPORT_ASSETS_H_

namespace tools::report {

extern const char* const kStyle;
extern const char* const kScript;

}  // namespace tools::report

#endif  // TOOLS_REPORT_ASSETS_H_
