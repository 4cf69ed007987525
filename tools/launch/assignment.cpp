// Writes and reads assignments as JSON.
#include "tools/launch/assignment.h"

#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace tools::launch {

using Json = nlohmann::json;

std::string line_of(const Assignment& assignment) {
  // What is not UTF-8 is refused here, because the agent could not read it.
  try {
    return Json{{"version", RUNTIME_VERSION},
                {"host", assignment.host},
                {"folder", assignment.folder},
                {"arguments", assignment.arguments},
                {"variables", assignment.variables},
                {"first_rank", assignment.first_rank},
                {"ranks", assignment.ranks},
                {"world_size", assignment.world_size},
                {"save_timeout_s", assignment.save_timeout_s},
                {"rendezvous", assignment.rendezvous},
                {"launch", assignment.launch_id}}
               .dump() +
           "\n";
  } catch (const Json::exception& error) {
    throw runtime::ConfigurationError(
        std::string("the command, its folder or a variable cannot be sent to the hosts: ") +
        error.what() + "; use UTF-8");
  }
}

Assignment read_assignment(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (!json.is_object() || version == json.end() || !version->is_string())
    throw runtime::ConfigurationError(
        "the launcher on a machine reads from its input what to run, and got nothing of that kind; "
        "the program of --agent must pass its input on (as podman exec does with -i), and a job "
        "begins with runtime launch --hosts");
  if (*version != RUNTIME_VERSION)
    throw runtime::ConfigurationError(
        "this machine has runtime " RUNTIME_VERSION ", and the one that starts the job has " +
        version->get<std::string>() + "; install the same version on all machines");
  try {
    return {json.at("host"),       json.at("folder"),         json.at("arguments"),
            json.at("variables"),  json.at("first_rank"),     json.at("ranks"),
            json.at("world_size"), json.at("save_timeout_s"), json.at("rendezvous"),
            json.at("launch")};
  } catch (const Json::exception& error) {
    throw runtime::ConfigurationError(std::string("runtime launch --serve: ") + error.what() +
                                      "; install the same version on all machines");
  }
}

}  // namespace tools::launch
