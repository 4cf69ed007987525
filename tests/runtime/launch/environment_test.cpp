// Checks what the variables of each launcher mean, and which combinations are refused.
#include "runtime/launch/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace runtime::launch {
namespace {

using Variables = std::map<std::string, std::string>;

RankEnvironment detect_in(const Variables& variables) {
  return detect([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string text(const RankEnvironment& e) {
  return std::to_string(e.rank) + "/" + std::to_string(e.world_size) + " " +
         std::to_string(e.local_rank) + "/" + std::to_string(e.local_size) + " " + e.source;
}

Variables merged(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables kOwn = variables_of({1, 4, 1, 4, "", false});
const Variables kTorchrun = {{"TORCHELASTIC_RUN_ID", "none"},
                             {"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "10.0.0.1"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_RANK", "2"}};
const Variables kMpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kBatchScript = {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"},
                                {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
                                {"SLURM_NODEID", "0"}, {"SLURM_TASKS_PER_NODE", "4"}};
const Variables kSrun = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_NTASKS", "7"},  {"SLURM_PROCID", "6"},
                         {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "3"},
                         {"PMIX_RANK", "6"},     {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

TEST(Environment, EachLauncherIsKnown) {
  EXPECT_EQ(text(detect_in({})), "0/1 0/1 ");
  EXPECT_EQ(text(detect_in(kOwn)), "1/4 1/4 runtime --nproc");
  EXPECT_EQ(text(detect_in(kTorchrun)), "3/4 1/2 torchrun");
  EXPECT_EQ(text(detect_in(kOpenMpi)), "2/6 0/2 Open MPI's mpirun");
  EXPECT_EQ(text(detect_in(kMpich)), "1/2 1/2 MPICH's mpiexec");
  EXPECT_EQ(text(detect_in(kSrun)), "6/7 0/1 srun");
  EXPECT_EQ(text(detect_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), "1/2 0/1 a PMI launcher");
  EXPECT_EQ(text(detect_in({{"PMIX_RANK", "1"}, {"RUNTIME_WORLD_SIZE", "2"}})),
            "1/2 0/1 a PMIx launcher");
  EXPECT_EQ(text(detect_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}})), "1/2 0/1 RANK and WORLD_SIZE");
  EXPECT_EQ(text(detect_in({{"MV2_COMM_WORLD_RANK", "3"},
                            {"MV2_COMM_WORLD_SIZE", "4"},
                            {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                            {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}})),
            "3/4 1/2 MVAPICH2's mpirun_rsh");
  EXPECT_EQ(text(detect_in({{"JSM_NAMESPACE_RANK", "3"},
                            {"JSM_NAMESPACE_SIZE", "4"},
                            {"JSM_NAMESPACE_LOCAL_RANK", "1"},
                            {"JSM_NAMESPACE_LOCAL_SIZE", "2"}})),
            "3/4 1/2 jsrun");
  EXPECT_EQ(text(detect_in({{"PALS_RANKID", "3"},
                            {"PMI_RANK", "3"},
                            {"PMI_SIZE", "4"},
                            {"PALS_LOCAL_RANKID", "1"},
                            {"PALS_LOCAL_SIZE", "2"}})),
            "3/4 1/2 PALS");
  // Flux says how many nodes there are, and not how many ranks are on this one.
  const auto flux = [](const char* nodes, const char* local = "1") {
    return text(detect_in({{"FLUX_TASK_RANK", "4"},
                           {"FLUX_JOB_SIZE", "5"},
                           {"FLUX_TASK_LOCAL_ID", local},
                           {"FLUX_JOB_NNODES", nodes}}));
  };
  EXPECT_EQ(flux("1"), "4/5 1/5 Flux");
  EXPECT_EQ(flux("2"), "4/5 1/3 Flux");
  EXPECT_EQ(flux("2", "3"), "4/5 3/4 Flux");  // four on one node and one on the other
  EXPECT_EQ(text(detect_in({{"PET_NODE_RANK", "1"}, {"PET_NNODES", "2"}})),
            "1/2 0/1 an operator for torchrun");
  EXPECT_EQ(
      text(detect_in({{"PET_NODE_RANK", "1"}, {"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "1"}})),
      "1/2 0/1 an operator for torchrun");
  // The operator wants more processes on each node than this one, or no other node.
  for (const Variables& variables :
       {Variables{{"PET_NODE_RANK", "1"}, {"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "4"}},
        Variables{{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1"}}})
    EXPECT_EQ(text(detect_in(variables)), "0/1 0/1 ");
  EXPECT_EQ(text(detect_in({{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "2"}})),
            "1/2 0/1 an Indexed Job of Kubernetes");
  EXPECT_EQ(text(detect_in({{"JOB_COMPLETION_INDEX", "0"}, {"WORLD_SIZE", "1"}})),
            "0/1 0/1 an Indexed Job of Kubernetes");
  // A job of pods that start ranks themselves, or that need not know of each other.
  EXPECT_EQ(text(detect_in({{"JOB_COMPLETION_INDEX", "1"}})), "0/1 0/1 ");
}

TEST(Environment, ABatchScriptIsOneRank) {
  EXPECT_EQ(text(detect_in(kBatchScript)), "0/1 0/1 ");
  // A shell of salloc, which Slurm runs as an interactive step.
  EXPECT_EQ(detect_in(merged(kBatchScript,
                             {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}}))
                .world_size,
            1);
}

TEST(Environment, AnInnerLauncherComesFirst) {
  EXPECT_EQ(detect_in(merged(kOpenMpi, kSrun)).source, "Open MPI's mpirun");
  EXPECT_EQ(detect_in(merged(kMpich, kSrun)).source, "MPICH's mpiexec");
  EXPECT_EQ(detect_in(merged(kTorchrun, kSrun)).source, "torchrun");
  EXPECT_EQ(detect_in(merged(kOwn, merged(kTorchrun, kOpenMpi))).source, "runtime --nproc");
  // These variables may be set by an operator on each machine; mpirun then starts the ranks there.
  EXPECT_EQ(detect_in(merged(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})).world_size, 6);
}

TEST(Environment, TasksOfANode) {
  const auto local_size = [](const std::string& list, const std::string& node) {
    Variables variables = kSrun;
    variables["SLURM_STEP_TASKS_PER_NODE"] = list;
    variables["SLURM_NODEID"] = node;
    return detect_in(variables).local_size;
  };
  EXPECT_EQ(local_size("4", "0"), 4);
  EXPECT_EQ(local_size("2(x3),1", "2"), 2);
  EXPECT_EQ(local_size("2(x3),1", "3"), 1);
  EXPECT_EQ(local_size("1,2(x2),3", "3"), 3);
  for (const char* list : {"", "2(x3", "x", "2(x0),1", "0", "9", ",", "(x2)", "-1"})
    EXPECT_THROW(local_size(list, "0"), ConfigurationError) << list;
  EXPECT_THROW(local_size("2(x3),1", "4"), ConfigurationError);
}

TEST(Environment, BrokenVariablesAreNamedWithTheirValue) {
  struct Case {
    const Variables& variables;
    const char* name;
    const char* value;  // "" removes the variable
  };
  const Case cases[] = {
      {kOwn, "RUNTIME_RANK", "4"},
      {kOwn, "RUNTIME_RANK", "-1"},
      {kOwn, "RUNTIME_RANK", "1x"},
      {kOwn, "RUNTIME_WORLD_SIZE", "0"},
      {kOwn, "RUNTIME_WORLD_SIZE", "99999999999999999999"},
      {kOwn, "RUNTIME_WORLD_SIZE", ""},
      {kOwn, "RUNTIME_LOCAL_RANK", "4"},
      {kOwn, "RUNTIME_LOCAL_RANK", ""},
      {kOwn, "RUNTIME_LOCAL_SIZE", "5"},
      {kTorchrun, "RANK", ""},
      {kTorchrun, "LOCAL_WORLD_SIZE", ""},
      {kOpenMpi, "OMPI_COMM_WORLD_SIZE", " 6"},
      {kMpich, "PMI_SIZE", "two"},
      {kSrun, "SLURM_NODEID", ""},
      {kSrun, "SLURM_PROCID", "7"},
  };
  for (const Case& c : cases) {
    Variables variables = c.variables;
    variables.erase(c.name);
    if (*c.value != '\0') variables[c.name] = c.value;
    try {
      detect_in(variables);
      ADD_FAILURE() << c.name << " = '" << c.value << "' was accepted";
    } catch (const ConfigurationError& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(std::string(c.name) + " = '" + c.value + "'"));
      EXPECT_THAT(e.what(), testing::HasSubstr("expected "));
    }
  }
}

TEST(Environment, WhatMpiexecWasToStartMustBeThere) {
  EXPECT_EQ(detect_in(merged(kOpenMpi, {{kExpectedVariable, "6"}})).world_size, 6);
  EXPECT_THROW(detect_in(merged(kOpenMpi, {{kExpectedVariable, "2"}})), ConfigurationError);
  EXPECT_THROW(detect_in({{kExpectedVariable, "2"}}), ConfigurationError);
}

TEST(Environment, RanksThatAreAskedForMustBeThoseThatAreThere) {
  const Variables one_by_hand = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  const Variables one_of_mpi = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  const Variables one_task =
      merged(kBatchScript, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "1"}});
  for (const auto& variables : {one_by_hand, one_of_mpi, one_task, kTorchrun, kSrun, kMpich}) {
    const RankEnvironment found = detect_in(variables);
    EXPECT_NO_THROW(check_asked_ranks(1, found));  // no ranks have to be started
    EXPECT_NO_THROW(check_asked_ranks(found.world_size, found));
    try {
      check_asked_ranks(found.world_size + 1, found);
      ADD_FAILURE() << found.source << " was overridden";
    } catch (const ConfigurationError& e) {
      const std::string ranks = std::to_string(found.world_size);
      EXPECT_THAT(e.what(), testing::HasSubstr("--nproc " + std::to_string(found.world_size + 1)));
      EXPECT_THAT(e.what(), testing::HasSubstr(" of " + ranks + ", as " + found.source));
      EXPECT_THAT(e.what(), testing::HasSubstr("unset " + found.marker));
      EXPECT_TRUE(variables.contains(found.marker)) << found.marker;
    }
  }
  EXPECT_NO_THROW(check_asked_ranks(2, detect_in({})));
  EXPECT_NO_THROW(check_asked_ranks(2, detect_in(kBatchScript)));
}

std::string refusal(const Variables& variables, int asked = 1) {
  const GetVariable get = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  try {
    check_alone(asked, detect(get), get);
    return "";
  } catch (const ConfigurationError& e) {
    return e.what();
  }
}

TEST(Environment, OneOfSeveralProcessesDoesNotRunAlone) {
  const Variables several[] = {
      {{"JOB_COMPLETION_INDEX", "0"}},
      {{"JOB_COMPLETION_INDEX", "3"}},
      {{"PET_NNODES", "2"}},
      {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "0"}, {"PET_NPROC_PER_NODE", "4"}},
      {{"PET_NPROC_PER_NODE", "auto"}},
      {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}},
      {{"SLURM_NNODES", "2"}},
      {{"FLUX_JOB_SIZE", "2"}},
      {{"MV2_COMM_WORLD_SIZE", "2"}},
      {{"WORLD_SIZE", "2"}},
      {{"RUNTIME_WORLD_SIZE", "2"}},
      {{"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"PMI_SIZE", "2"}}};
  for (const Variables& variables : several) {
    const std::string text = refusal(variables);
    for (const auto& [name, value] : variables) {
      if (name == "SLURM_JOB_ID" || value == "0") continue;
      EXPECT_THAT(text, testing::HasSubstr(name + " = '" + value + "'"));
    }
    EXPECT_THAT(text, testing::HasSubstr("RUNTIME_RANK=0 and RUNTIME_WORLD_SIZE=1"));
    EXPECT_EQ(refusal(variables, 2), "");  // --nproc 2: the ranks are started here
    EXPECT_EQ(refusal(merged({{"RUNTIME_RANK", "0"}, {"RUNTIME_WORLD_SIZE", "1"}}, variables)), "");
  }
}

TEST(Environment, OneProcessMayRunAlone) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"WORLD_SIZE", ""}}), "");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "1"}, {"PET_NNODES", "1"}, {"PET_NODE_RANK", "0"}}), "");
  EXPECT_EQ(refusal({{"SLURM_NTASKS", "1"}, {"SLURM_NNODES", "1"}, {"SLURM_PROCID", "0"}}), "");
  EXPECT_EQ(refusal(kSrun), "");  // this is used
}

TEST(Environment, TheVariableThatMakesARankIsNamed) {
  EXPECT_EQ(reason_of(detect_in({})), "");
  EXPECT_EQ(reason_of(detect_in(kOwn)), "");
  EXPECT_THAT(reason_of(detect_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}})),
              testing::HasSubstr("rank 1 of 2, because RANK is set (RANK and WORLD_SIZE): unset "));
}

}  // namespace
}  // namespace runtime::launch
