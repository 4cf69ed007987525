// Pins the layout of the contract in C++ as in C, and checks that no struct has unnamed padding.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "rt/capture.h"
#include "rt/common.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/host_process.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/operation_set.h"
#include "rt/operations.h"
#include "rt/plugin.h"
#include "rt/reader.h"

#define STRUCT(type, bytes, constant, first) \
  static_assert(sizeof(type) == (bytes));    \
  static_assert((constant) == (first) && (first) <= (bytes));
#define FIELD(type, field, at, bytes)           \
  static_assert(offsetof(type, field) == (at)); \
  static_assert(sizeof(type::field) == (bytes));
#include "layout.inc"
#undef STRUCT
#undef FIELD

extern "C" int contract_compiles_as_c(void);

namespace {

struct Field {
  std::string type, name;
  std::size_t offset, bytes;
};

const std::vector<Field> kFields = {
#define STRUCT(type, bytes, constant, first)
#define FIELD(type, field, at, bytes) {#type, #field, at, bytes},
#include "layout.inc"
#undef STRUCT
#undef FIELD
};

const std::map<std::string, std::size_t> kStructs = {
#define STRUCT(type, bytes, constant, first) {#type, bytes},
#define FIELD(type, field, at, bytes)
#include "layout.inc"
#undef STRUCT
#undef FIELD
};

TEST(Layout, IsTheSameInCAndCpp) { EXPECT_EQ(contract_compiles_as_c(), RT_ABI_MAJOR); }

TEST(Layout, HasNoHiddenPadding) {
  std::map<std::string, std::size_t> end;
  for (const Field& field : kFields) {
    EXPECT_EQ(field.offset, end[field.type])
        << "padding before " << field.type << "." << field.name;
    end[field.type] = field.offset + field.bytes;
  }
  for (const auto& [type, bytes] : kStructs)
    EXPECT_EQ(end[type], bytes) << "padding after " << type;
}

TEST(Layout, EveryStructBeginsWithItsSize) {
  std::map<std::string, std::string> first;
  for (const Field& field : kFields) first.try_emplace(field.type, field.name);
  EXPECT_EQ(first.size(), kStructs.size());
  for (const auto& [type, name] : first) EXPECT_EQ(name, "size") << type;
}

}  // namespace
