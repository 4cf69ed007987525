// Writes and reads assignments as JSON.
#include "tools/launch/assignment.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace tools::launch {
namespace {

using Json = nlohmann::json;

int number_of(const Json& json, const char* name, int lowest) {
  const Json& value = json.at(name);
  const bool whole = value.is_number_integer();
  if (whole && value >= lowest && value <= std::numeric_limits<int>::max()) return value;
  throw runtime::ConfigurationError(std::string("runtime launch --serve: ") + name + ": got " +
                                    value.dump(-1, ' ', true, Json::error_handler_t::replace) +
                                    ", expected a whole number, at least " +
                                    std::to_string(lowest));
}

}  // namespace

std::string line_of(const Assignment& assignment) {
  // The agent could not read a text that is not UTF-8, so it is refused here.
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
                {"launch", assignment.launch_id},
                {"log_folder", assignment.log_folder}}
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
    Assignment a{.host = json.at("host"),
                 .folder = json.at("folder"),
                 .arguments = json.at("arguments"),
                 .variables = json.at("variables"),
                 .first_rank = number_of(json, "first_rank", 0),
                 .ranks = number_of(json, "ranks", 1),
                 .world_size = number_of(json, "world_size", 1),
                 .save_timeout_s = number_of(json, "save_timeout_s", 1),
                 .rendezvous = json.at("rendezvous"),
                 .launch_id = json.at("launch"),
                 .log_folder = json.at("log_folder")};
    if (a.world_size - a.first_rank >= a.ranks) return a;
    throw runtime::ConfigurationError(
        "runtime launch --serve: got ranks " + std::to_string(a.first_rank) + " to " +
        std::to_string(int64_t{a.first_rank} + a.ranks - 1) + " of " +
        std::to_string(a.world_size) + ", expected ranks below that number");
  } catch (const Json::exception& error) {
    throw runtime::ConfigurationError(std::string("runtime launch --serve: ") + error.what() +
                                      "; install the same version on all machines");
  }
}

}  // namespace tools::launch
