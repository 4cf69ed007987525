// Starts programs, waits for them, keeps what they print.
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
  int exit_code = -1;  // 128 + signal if a signal ended it
  std::string out, err;
};

// The `runtime` program in a folder, which is also its cache and home. Killed by the destructor if
// it still runs.
class RuntimeProcess {
 public:
  // `before`: called in the new process, just before it becomes the program.
  RuntimeProcess(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment = {},
                 const std::function<void()>& before = nullptr);
  ~RuntimeProcess();
  RuntimeProcess(const RuntimeProcess&) = delete;
  RuntimeProcess& operator=(const RuntimeProcess&) = delete;

  // Until its output or error holds `text`; false if it ended or the time passed without it.
  bool wait_for_text(const std::string& text, std::chrono::seconds limit);
  void send(int signal) const;
  // Fails the test if it takes longer than `limit`.
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
