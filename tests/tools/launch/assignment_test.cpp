// An agent gets the assignment that was meant for its host, and refuses damaged ones.
#include "tools/launch/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/error.h"
#include "tools/launch/launch.h"

namespace tools::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Action>
std::string refusal_of(const Action& action) {
  try {
    action();
  } catch (const runtime::ConfigurationError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Assignments, AreReadAsTheyWereWritten) {
  const Assignment assignment{.host = "user@b",
                              .folder = "/a folder",
                              .arguments = {"train", "a b.toml", "--set", "job.name=\"x\n\""},
                              .variables = {{"RUNTIME_SECRET", "s"}, {"EMPTY", ""}},
                              .first_rank = 4,
                              .ranks = 2,
                              .world_size = 8,
                              .save_timeout_s = 5,
                              .rendezvous = "tcp://a:29500",
                              .launch_id = "id",
                              .log_folder = "logs"};
  const std::string line = line_of(assignment);
  EXPECT_EQ(line.find('\n'), line.size() - 1);  // the agent reads one line
  EXPECT_EQ(read_assignment(line), assignment);
}

TEST(Assignments, WhatIsNoneIsRefused) {
  for (const char* line : {"", "{", "[]", "7", "{}", "{\"version\":1}", "train"})
    EXPECT_THAT(refusal_of([&] { read_assignment(line); }), HasSubstr("runtime launch --hosts"))
        << line;
  EXPECT_THAT(refusal_of([&] { read_assignment("{\"version\":\"0.0.1\"}"); }),
              HasSubstr("the one that starts the job has 0.0.1; install the same version"));
  // A number that is none, which a fuzzer has found, and ranks that do not exist.
  for (const char* wrong : {"1e97", "-1", "1.5", "\"1\"", "2147483648", "[]", "null"}) {
    std::string line = line_of(Assignment{.save_timeout_s = 1});
    line.replace(line.find("\"first_rank\":0") + 13, 1, wrong);
    EXPECT_THAT(refusal_of([&] { read_assignment(line); }), HasSubstr("first_rank: got ")) << line;
  }
  EXPECT_THAT(refusal_of([] {
                read_assignment(line_of(
                    Assignment{.first_rank = 2, .ranks = 2, .world_size = 3, .save_timeout_s = 1}));
              }),
              HasSubstr("got ranks 2 to 3 of 3"));
  std::string half = line_of(Assignment{.save_timeout_s = 1});
  half.replace(half.find("\"folder\""), 8, "\"folded\"");
  EXPECT_THAT(refusal_of([&] { read_assignment(half); }), HasSubstr("folder"));
  EXPECT_THAT(refusal_of([] { line_of(Assignment{.folder = "/\xff"}); }), HasSubstr("use UTF-8"));
}

Arguments two_hosts() {
  return {.hosts = {{"me@a", 2}, {"b", 1}},
          .command = {"train", "c.toml"},
          .agent = {"ssh", "-p", "22"},
          .program = "/opt/bin/runtime",
          .folder = "/work"};
}

TEST(Agents, GetTheRanksOfTheirHosts) {
  ::setenv("RUNTIME_ASSIGNMENT_TEST", "1", 1);
  ::setenv("ASSIGNMENT_TEST", "2", 1);
  Arguments arguments = two_hosts();
  arguments.forwarded = {"ASSIGNMENT_TEST"};
  const auto agents = agents_of(arguments);
  ASSERT_EQ(agents.size(), 2u);
  EXPECT_EQ(agents[0].program, "ssh");
  EXPECT_THAT(agents[0].arguments,
              ElementsAre("ssh", "-p", "22", "me@a", "/opt/bin/runtime", "launch", "--serve"));
  const Assignment first = read_assignment(*agents[0].input),
                   second = read_assignment(*agents[1].input);
  EXPECT_EQ(first.first_rank, 0);
  EXPECT_EQ(first.ranks, 2);
  EXPECT_EQ(second.first_rank, 2);
  EXPECT_EQ(agents[1].rank, 2);
  for (const Assignment& assignment : {first, second}) {
    EXPECT_EQ(assignment.world_size, 3);
    EXPECT_EQ(assignment.rendezvous, "tcp://a:29500");
    EXPECT_THAT(assignment.arguments, ElementsAre("train", "c.toml"));
    EXPECT_EQ(assignment.variables.at("RUNTIME_ASSIGNMENT_TEST"), "1");
    EXPECT_EQ(assignment.variables.at("ASSIGNMENT_TEST"), "2");
    EXPECT_FALSE(assignment.variables.contains("PATH"));
  }
  // All attempts have one secret, and ranks of another job do not know it.
  EXPECT_EQ(read_assignment(*agents_of(arguments)[0].input).variables.at("RUNTIME_SECRET"),
            first.variables.at("RUNTIME_SECRET"));
  EXPECT_EQ(first.variables.at("RUNTIME_SECRET"), second.variables.at("RUNTIME_SECRET"));
  EXPECT_NE(read_assignment(*agents_of(two_hosts())[0].input).variables.at("RUNTIME_SECRET"),
            first.variables.at("RUNTIME_SECRET"));
}

std::vector<std::string> names_of(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const Host& host : arguments.hosts) names.push_back(host.name);
  return names;
}

TEST(LeaveOut, TakesSparesFirst) {
  Arguments arguments = two_hosts();  // ranks 0 and 1 on me@a, 2 on b
  arguments.hosts.push_back({"c", 2});
  arguments.spares = {{"d", 2}};
  arguments.min_hosts = 2;
  EXPECT_TRUE(leave_out(arguments, 4));
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "b", "d"));
  EXPECT_TRUE(leave_out(arguments, 2));
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "d"));
  EXPECT_FALSE(leave_out(arguments, 3)) << "two machines are needed";
  EXPECT_FALSE(leave_out(arguments, 1)) << "rank 0's machine stays";
  EXPECT_FALSE(leave_out(arguments, 7));
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "d"));
}

TEST(LeaveOut, MachinesThatAreBackHaveTheirPlacesAgain) {
  Arguments arguments = two_hosts();
  arguments.hosts.insert(arguments.hosts.end(), {{"c", 2}, {"d", 1}});
  for (size_t i = 0; i < arguments.hosts.size(); ++i) arguments.hosts[i].place = i;
  arguments.min_hosts = 1;
  EXPECT_TRUE(leave_out(arguments, 2));
  EXPECT_TRUE(leave_out(arguments, 2));
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "d"));
  take_back(arguments.left_out, arguments.hosts);
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "d")) << "none is back";
  arguments.left_out[1].is_back = true;
  take_back(arguments.left_out, arguments.hosts);
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "c", "d"));
  EXPECT_TRUE(arguments.hosts[1].is_new);
  ASSERT_EQ(arguments.left_out.size(), 1u);
  EXPECT_EQ(arguments.left_out[0].skipped, 0);
  arguments.left_out[0].is_back = true;
  take_back(arguments.left_out, arguments.hosts);
  EXPECT_THAT(names_of(arguments), ElementsAre("me@a", "b", "c", "d"));
  EXPECT_TRUE(leave_out(arguments, 2));
  EXPECT_EQ(arguments.left_out[0].skipped, 1) << "b was back and is lost again";
}

TEST(Agents, MayHaveTheHostAnywhere) {
  Arguments arguments = two_hosts();
  arguments.agent = {"exec", "--in={host}"};
  arguments.rendezvous = "c:1";
  const auto agents = agents_of(arguments);
  EXPECT_THAT(agents[1].arguments,
              ElementsAre("exec", "--in=b", "/opt/bin/runtime", "launch", "--serve"));
  EXPECT_EQ(read_assignment(*agents[1].input).rendezvous, "tcp://c:1");
}

TEST(Agents, WhatAHostCouldNotTakeIsRefused) {
  Arguments arguments = two_hosts();
  for (const char* path : {"", "/a b/runtime", "/a;b", "$HOME/runtime"}) {
    arguments.program = path;
    EXPECT_THAT(refusal_of([&] { agents_of(arguments); }), HasSubstr("--program: got '"));
  }
  arguments = two_hosts();
  arguments.forwarded = {"NO_SUCH_VARIABLE_HERE"};
  EXPECT_THAT(refusal_of([&] { agents_of(arguments); }),
              HasSubstr("--env NO_SUCH_VARIABLE_HERE: there is no such variable here"));
}

}  // namespace
}  // namespace tools::launch
