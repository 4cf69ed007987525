// Runs `runtime plugins check` and collects what it prints.
#ifndef TESTS_PLUGINS_CHECK_PROGRAM_H_
#define TESTS_PLUGINS_CHECK_PROGRAM_H_

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace plugins::check {

struct ProgramResult {
  int exit_code = -1;
  std::string text;  // standard output and error
};

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// `environment` goes before the program: "NAME=value".
inline ProgramResult run_program(const std::string& program,
                                 const std::vector<std::string>& arguments,
                                 const std::string& environment = "") {
  std::string command = environment + " '" + program + "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  ProgramResult result;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (size_t bytes; (bytes = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    result.text.append(buffer, bytes);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

// `mutant` is a fault of mutants.cpp, or "" for none.
inline ProgramResult run_check(const std::vector<std::string>& arguments,
                               const std::string& mutant) {
  return run_program(CHECK_PROGRAM, arguments, "RUNTIME_MUTANT=" + mutant);
}

}  // namespace plugins::check

#endif  // TESTS_PLUGINS_CHECK_PROGRAM_H_
