// Remembers that something that was reported could not be written.
#ifndef RUNTIME_SESSION_REPORTS_WRITE_FAILURE_H_
#define RUNTIME_SESSION_REPORTS_WRITE_FAILURE_H_

#include <ostream>
#include <string>

#include "runtime/error.h"

namespace runtime::session {

// Remembers that an output could not be written during training, and warns once.
class WriteFailure {
 public:
  WriteFailure(std::string name, std::ostream& warnings)
      : name_(std::move(name)), warnings_(warnings) {}

  // `reason` may be empty.
  void add(const std::string& reason) {
    if (!text_.empty()) return;
    text_ = name_ + " could not be written" + (reason.empty() ? "" : ": " + reason);
    warnings_ << "warning: " << text_ << "; training goes on without it" << std::endl;
  }
  // To call after each write. Clears the error, because later writes may succeed.
  void look(std::ostream& out) {
    if (out.good()) return;
    add("");
    out.clear();
  }
  // Throws an Error, which is DataError or a class made from it, if something was lost.
  template <class Error = DataError>
  void throw_if_any() const {
    if (text_.empty()) return;
    throw Error(text_ +
                "; part of it is missing. See how full the file system is (df), and whether "
                "whatever reads it has ended");
  }

 private:
  const std::string name_;
  std::ostream& warnings_;
  std::string text_;
};

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_REPORTS_WRITE_FAILURE_H_
