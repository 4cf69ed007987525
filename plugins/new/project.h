// Makes the folder of a new plugin from one of the templates in plugins/examples.
#ifndef PLUGINS_NEW_PROJECT_H_
#define PLUGINS_NEW_PROJECT_H_

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace plugins::create {

// The user asked for something that cannot be. The text says what, and what is expected.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A kind of plugin: a word of the command line, and the template of that kind.
struct Kind {
  std::string word;
  std::string folder;  // "template_device", which is also the name that is replaced
  std::string what;    // for people
};

// All kinds, in the order of the help text.
const std::vector<Kind>& kinds();

// What is made.
struct Project {
  std::string kind;
  std::string name;  // of the plugin: [a-z][a-z0-9_]*
  std::filesystem::path templates;
  std::filesystem::path output;  // the folder, which must not exist
};

// Copies the template, with the name of the plugin in place of that of the template, in contents
// and names of files, and adds a workflow for CI. Returns the files, relative to the folder and
// sorted. Throws Refusal for a kind, a name or a folder that cannot be, and leaves nothing behind.
std::vector<std::filesystem::path> make_project(const Project& project);

}  // namespace plugins::create

#endif  // PLUGINS_NEW_PROJECT_H_
