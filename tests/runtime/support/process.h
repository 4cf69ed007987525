// Starts programs, waits for them, and keeps their output.
#ifndef TESTS_RUNTIME_SUPPORT_PROCESS_H_
#define TESTS_RUNTIME_SUPPORT_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace runtime::test {

struct ProcessResult {
  int exit_code = -1;  // 128 + signal if a signal ended the process
  std::string out, err;
};

// The `runtime` program, run in a folder that is also its cache and home. The destructor kills it
// if it still runs.
class RuntimeProcess {
 public:
  // `before` is called in the new process, just before exec.
  RuntimeProcess(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment = {},
                 const std::function<void()>& before = nullptr);
  ~RuntimeProcess();
  RuntimeProcess(const RuntimeProcess&) = delete;
  RuntimeProcess& operator=(const RuntimeProcess&) = delete;

  // Waits until standard output or error contains `text`; returns false if the process ended or
  // `limit` passed before.
  bool wait_for_text(const std::string& text, std::chrono::seconds limit);
  void send(int signal) const;
  // Waits for the process to end; fails the test if that takes longer than `limit`.
  ProcessResult wait(std::chrono::seconds limit = std::chrono::seconds(100));

 private:
  bool ended(int options);
  std::filesystem::path out_, err_;
  pid_t id_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

ProcessResult run_runtime(const std::filesystem::path& folder,
                          const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment = {});

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_SUPPORT_PROCESS_H_
