// Checks which store is chosen, and how jobs are told apart.
#include "runtime/launch/stores.h"

#include <unistd.h>

#include <fstream>

#include "runtime/config/schema.h"
#include "tests/runtime/launch/store_support.h"
#include "tests/runtime/support/names.h"

namespace runtime::launch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = StoreChoice::Kind;
using Variables = std::map<std::string, std::string>;

GetVariable from(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// The environment of four ranks, started by mpirun or by a launcher such as torchrun.
RankEnvironment started(int local_size, bool by_mpirun = false) {
  RankEnvironment ranks;
  ranks.world_size = 4;
  ranks.local_size = local_size;
  ranks.launcher_binds = by_mpirun;
  return ranks;
}

const RankEnvironment kHere = started(4), kHosts = started(2);
const RankEnvironment kMpirunHere = started(4, true), kMpirunHosts = started(2, true);
const Variables kPmix = {{"PMIX_NAMESPACE", "77"}};
const Variables kLauncher = {{"RUNTIME_RENDEZVOUS", "file:/l"}};
const Variables kMaster = {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "2"}};
const Variables kMaster6 = {{"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "2"}};
// torchrun says whether its agent keeps a store at MASTER_ADDR and MASTER_PORT.
Variables torchrun(const char* agent_keeps) {
  Variables variables = kMaster;
  variables["TORCHELASTIC_RUN_ID"] = "x";
  variables["TORCHELASTIC_USE_AGENT_STORE"] = agent_keeps;
  return variables;
}
const Variables kTorchrun = torchrun("True"), kOldTorchrun = torchrun("False");
const Variables kBoth = {{"PMIX_NAMESPACE", "77"}, {"RUNTIME_RENDEZVOUS", "file:/l"}};

struct Case {
  std::string rendezvous, address;
  RankEnvironment ranks;
  Variables variables;
  Kind kind;
  std::string expected;
};

// A rendezvous has two halves: its name in the configuration, and what chooses the store.
TEST(Stores, EachNameOfTheConfigurationIsWritten) {
  const config::Key* const key = config::find_key(config::find_section("comm")->keys, "rendezvous");
  runtime::test::expect_both_halves(key->choices, "runtime/config/schema_sections.cpp",
                                    written_rendezvous(), "runtime/launch/stores.cpp");
}

TEST(Stores, ARendezvousThatNothingIsWrittenForIsAFaultOfTheProgram) {
  EXPECT_THROW(choose_store("later", "/f", kHere, from({})), InternalError);
}

TEST(Stores, AreChosenInOrder) {
  const std::string temporary =
      (std::filesystem::temp_directory_path() / ("runtime-" + std::to_string(::getuid()))).string();
  std::vector<Case> cases = {
      {"auto", "/f", kHere, {}, Kind::kFile, "/f"},
      {"auto", "./f", kHosts, {}, Kind::kFile, "./f"},
      {"auto", "file:f", kHosts, {}, Kind::kFile, "f"},
      {"auto", "h:1", kHosts, {}, Kind::kRedis, "h:1"},
      {"auto", "redis://h:1", kHosts, {}, Kind::kRedis, "redis://h:1"},
      {"auto", "", kHere, {}, Kind::kFile, temporary},
      {"auto", "", kHere, kLauncher, Kind::kFile, "/l"},
      {"auto", "h:1", kHere, kLauncher, Kind::kFile, "/l"},
      {"auto", "", kMpirunHere, kPmix, Kind::kFile, temporary},
      {"auto", "h:1", kMpirunHosts, kPmix, Kind::kRedis, "h:1"},
      {"auto", "", kMpirunHere, kBoth, Kind::kFile, "/l"},
      // The PMIx namespace is that of srun, but torchrun has started the ranks.
      {"auto", "", kHere, kPmix, Kind::kFile, temporary},
      {"env", "h:1", kHere, {}, Kind::kFile, temporary},
      {"env", "h:1", kHosts, kLauncher, Kind::kFile, "/l"},
      {"env", "", kHosts, {{"RUNTIME_RENDEZVOUS", "h:1"}}, Kind::kRedis, "h:1"},
      {"file", "f", kHosts, kBoth, Kind::kFile, "f"},
      {"file", "file:f", kHosts, {}, Kind::kFile, "f"},
      {"file", "", kHosts, kLauncher, Kind::kFile, "/l"},
      {"redis", "h:1", kHere, kBoth, Kind::kRedis, "h:1"},
      {"redis", "", kHosts, {{"RUNTIME_RENDEZVOUS", "h:1"}}, Kind::kRedis, "h:1"},
      {"auto", "tcp://h:1", kHosts, kMaster, Kind::kTcp, "tcp://h:1"},
      {"auto", "", kHosts, kMaster, Kind::kTcp, "tcp://m:2"},
      {"auto",
       "",
       kHosts,
       {{"PET_MASTER_ADDR", "m"}, {"PET_MASTER_PORT", "2"}},
       Kind::kTcp,
       "tcp://m:2"},
      {"auto", "", kHosts, kMaster6, Kind::kTcp, "tcp://[fd00::1]:2"},
      {"auto", "", kHere, kMaster, Kind::kFile, temporary},
      {"env", "h:1", kHosts, kMaster, Kind::kTcp, "tcp://m:2"},
      {"tcp", "", kHosts, kMaster, Kind::kTcp, "tcp://m:2"},
      {"tcp", "h:1", kHosts, kTorchrun, Kind::kTcp, "h:1"},
      {"auto", "", kHosts, kTorchrun, Kind::kTorch, "m:2"},
      {"auto", "tcp://h:1", kHosts, kTorchrun, Kind::kTcp, "tcp://h:1"},
      {"auto", "", kHere, kTorchrun, Kind::kFile, temporary},
      {"auto", "", kHosts, kOldTorchrun, Kind::kTcp, "tcp://m:2"},
      {"tcp", "", kHosts, kOldTorchrun, Kind::kTcp, "tcp://m:2"},
      {"pmix", "h:1", kHosts, kLauncher, Kind::kPmix, ""},
      {"redis", "", RankEnvironment(), {}, Kind::kMemory, ""},
  };
  if (has_pmix()) cases.push_back({"auto", "", kMpirunHosts, kPmix, Kind::kPmix, ""});
  for (const Case& c : cases) {
    const StoreChoice choice = choose_store(c.rendezvous, c.address, c.ranks, from(c.variables));
    const std::string what = c.rendezvous + " '" + c.address + "' expects " + c.expected;
    EXPECT_EQ(choice.kind, c.kind) << what;
    EXPECT_EQ(choice.address, c.expected) << what;
    EXPECT_EQ(choice.own_folder, c.expected == temporary) << what;
  }
}

TEST(Stores, RefusalsSayWhatCouldBeGiven) {
  const auto refusal = [](const std::string& rendezvous, const std::string& address,
                          const Variables& variables) {
    return message_of<ConfigurationError>(
        [&] { choose_store(rendezvous, address, kHosts, from(variables)); });
  };
  EXPECT_THAT(refusal("auto", "", {}), HasSubstr("4 ranks, 2 of them on this machine"));
  EXPECT_THAT(refusal("auto", "", {}), HasSubstr("a folder that all ranks share, tcp://host:port"));
  EXPECT_THAT(refusal("env", "/f", {}), HasSubstr("comm.rendezvous_address"));
  EXPECT_THAT(refusal("auto", "name", {}), HasSubstr("'./name'"));
  EXPECT_THAT(refusal("auto", "", {{"RUNTIME_RENDEZVOUS", "x"}}), HasSubstr("RUNTIME_RENDEZVOUS"));
  EXPECT_THAT(refusal("file", "", {}), HasSubstr("give it a folder"));
  EXPECT_THAT(refusal("redis", "", kLauncher), HasSubstr("give it host:port"));
  EXPECT_THAT(refusal("tcp", "", kTorchrun), HasSubstr("give it tcp://host:port"));
  for (const char* secret : {"RUNTIME_SECRET", "RUNTIME_SECRET_FILE"}) {
    Variables variables = kTorchrun;
    variables[secret] = "hidden";
    EXPECT_THAT(refusal("auto", "", variables),
                AllOf(HasSubstr("torchrun's store at m:2"), HasSubstr("without a secret"),
                      HasSubstr("tcp://host:port with the host of rank 0")));
  }
}

TEST(Stores, RunsAreToldApartByTheVariablesOfTheirLauncher) {
  const auto hint = [](const RankEnvironment& ranks, const Variables& variables) {
    return choose_store("auto", "", ranks, from(variables)).run_hint;
  };
  EXPECT_EQ(hint(kHere, {{"TORCHELASTIC_RUN_ID", "none"}, {"MASTER_PORT", "29500"}}), "none-29500");
  EXPECT_EQ(hint(kHere, {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}), "7-0");
  EXPECT_EQ(hint(kHere, {}), "parent-" + std::to_string(::getppid()));
  EXPECT_EQ(choose_store("file", "/f", kHosts, from({})).run_hint, "");
}

TEST(Stores, ALauncherKeepsTheStoreForRankZero) {
  const GetVariable none = from({});
  EXPECT_EQ(keep_store("file:/tmp/x", none), nullptr);
  EXPECT_EQ(keep_store("redis://10.0.0.1:6379", none), nullptr);
  EXPECT_THAT(message_of<ConfigurationError>([&] { keep_store("tcp://127.0.0.1:x", none); }),
              HasSubstr("tcp://127.0.0.1:x"));
  // A store on a free port says which one it has.
  const StoreServer free("127.0.0.1", 0, "");
  const std::string port = std::to_string(free.port());
  EXPECT_THAT(message_of([&] { keep_store("tcp://127.0.0.1:" + port, none); }),
              HasSubstr("cannot listen on port " + port + " of rank 0"));
  const StoreChoice choice = choose_store(
      "auto", "", kHosts,
      from({{"RUNTIME_RENDEZVOUS", "tcp://127.0.0.1:" + port}, {"RUNTIME_STORE_KEPT", "1"}}));
  EXPECT_FALSE(choice.leads);
  EXPECT_TRUE(choice.kept_here);
  const StoreChoice other = choose_store(
      "tcp", "tcp://127.0.0.1:1", kHosts,
      from({{"RUNTIME_RENDEZVOUS", "tcp://127.0.0.1:" + port}, {"RUNTIME_STORE_KEPT", "1"}}));
  EXPECT_TRUE(other.leads) << "nobody keeps a store at the address of the configuration";
  EXPECT_FALSE(other.kept_here);
  EXPECT_EQ(open_store(choice, 2)->try_get("key"), std::nullopt);
}

TEST(Stores, ASecretIsAVariableOrAFile) {
  const TempFolder folder;
  const std::string path = folder.path() / "secret";
  std::ofstream(path) << "of a file\n";
  const auto secret = [&](const Variables& variables) {
    return choose_store("tcp", "h:1", kHosts, from(variables)).secret;
  };
  EXPECT_EQ(secret({}), "");
  EXPECT_EQ(secret({{"RUNTIME_SECRET", "said"}}), "said");
  EXPECT_EQ(secret({{"RUNTIME_SECRET", "said"}, {"RUNTIME_SECRET_FILE", path}}), "of a file");
  std::ofstream(folder.path() / "empty") << "";
  for (const std::string& none :
       {path + ".not", (folder.path() / "empty").string(), folder.path().string()}) {
    EXPECT_THAT(message_of<ConfigurationError>([&] {
                  secret({{"RUNTIME_SECRET_FILE", none}});
                }),
                HasSubstr("RUNTIME_SECRET_FILE: " + none + " has no secret"));
  }
}

TEST(Stores, TheFolderOfAUserIsHisAlone) {
  const TempFolder folder;
  const StoreChoice choice{
      .kind = Kind::kFile, .address = folder.path() / "own", .own_folder = true};
  open_store(choice, 2)->set("key", "value");
  EXPECT_EQ(open_store(choice, 2)->try_get("key"), "value");
  std::filesystem::permissions(choice.address, std::filesystem::perms::all);
  EXPECT_THAT(message_of([&] { open_store(choice, 2); }), HasSubstr("only this user can write"));
  std::filesystem::remove_all(choice.address);
  std::filesystem::create_symlink(folder.path(), choice.address);
  EXPECT_THAT(message_of([&] { open_store(choice, 2); }), HasSubstr("is not a folder"));
}

TEST(Stores, AKindThatThisBuildDoesNotHaveIsAnError) {
  if (!has_redis()) {
    EXPECT_THAT(message_of<ConfigurationError>([] { open_store({.kind = Kind::kRedis}, 2); }),
                HasSubstr("libhiredis-dev"));
  }
  if (!has_pmix()) {
    EXPECT_THAT(message_of<ConfigurationError>([] { open_store({.kind = Kind::kPmix}, 2); }),
                HasSubstr("libpmix-dev"));
  }
  EXPECT_NE(open_store({}, 1), nullptr);
}

}  // namespace
}  // namespace runtime::launch::test
