// A choice with two halves: a row of the configuration and a row of what runs it.
#ifndef TESTS_RUNTIME_SUPPORT_NAMES_H_
#define TESTS_RUNTIME_SUPPORT_NAMES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace runtime::test {

// Fails for each name that only one of the two files has a row for, and says which lacks it.
inline void expect_both_halves(const std::vector<std::string>& configured, const char* configures,
                               const std::vector<std::string>& written, const char* runs) {
  const auto expect_rows = [](const auto& of, const auto& in, const char* has, const char* lacks) {
    for (const std::string& name : of)
      EXPECT_EQ(std::count(in.begin(), in.end(), name), 1)
          << '"' << name << "\" has a row in " << has << "; expected one in " << lacks;
  };
  expect_rows(configured, written, configures, runs);
  expect_rows(written, configured, runs, configures);
}

}  // namespace runtime::test

#endif  // TESTS_RUNTIME_SUPPORT_NAMES_H_
