// Checks whom the message blames, for made-up states of the ranks.
#include "runtime/watch/diagnose.h"

#include <gmock/gmock.h>

#include <array>

#include "runtime/watch/waits.h"

namespace runtime::watch {
namespace {

using Kind = Note::Kind;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string k17 = "all_reduce #17 (431080 float32)";

Incident late() { return {.pending = k17, .late_after_s = 2}; }
Incident failed() { return {.pending = k17, .error = "connection closed by peer"}; }
Incident told() { return {.pending = k17}; }

// A rank that waits in call `number` of a channel.
ChannelState in_call(uint64_t number, Channel channel = {}, int32_t kind = RT_ALL_REDUCE) {
  ChannelState state{channel, number};
  state.pending = {.sequence = 100,
                   .kind = kind,
                   .dtype = RT_FLOAT32,
                   .peer = channel.peer,
                   .count = 431080,
                   .communicator = channel.communicator,
                   .wait_ns = 2,
                   .number = number};
  return state;
}

// A rank that has completed all calls up to `number`, and waits in none.
ChannelState done(uint64_t number, Channel channel = {}) { return {channel, number}; }

using Channels = std::vector<ChannelState>;
const Channels kIn17{in_call(17)}, kBefore17{done(16)};

Note note(int rank, const Incident& incident, const Channels& channels = kIn17) {
  return {rank, incident.kind(), incident.text(), channels};
}

// The note of `rank`, whose connection with the rank `broken` has broken.
Note note_broken(int rank, int broken) {
  Note n = note(rank, failed());
  n.broken = broken;
  return n;
}

// The note of `rank` about an incident in which the rank `silent` does not answer.
Note note_without(int rank, int silent, const Incident& incident) {
  Note n = note(rank, incident);
  n.silent = silent;
  return n;
}

struct Case {
  const char* name;
  Incident incident;
  Evidence evidence;
  const char* start;
  std::vector<const char*> contains;
  std::vector<const char*> lacks;
};

std::vector<Case> cases() {
  const Note nan{1, Kind::kOwnError, "step 12: the loss is nan", kBefore17};
  return {
      {"a killed rank, seen by its neighbour",
       failed(),
       {1, 4, {note(0, told()), note(1, failed()), note(3, failed())}},
       "rank 2 of 4 is lost: it does not answer",
       {"connection closed by peer", "ranks 0, 1 and 3 wait for it", "--max-restarts"},
       {}},
      {"a killed rank among many that have not answered yet",
       told(),
       {1, 64, {note(0, told()), note(1, told()), note_broken(3, 21), note_broken(5, 21)}},
       "rank 21 of 64 is lost: its connections have broken without a word",
       {"connection closed by peer, on rank 3", "ranks 0, 1, 3 and 5 wait for it"},
       {"ranks 2, ", "do not answer"}},
      {"a rank that has left a note is not the lost one, though its connection has broken",
       told(),
       {1, 3, {note(0, told()), note_broken(1, 0)}},
       "rank 2 of 3 is lost: it does not answer",
       {},
       {"rank 0 of 3"}},
      {"most ranks have not answered",
       failed(),
       {0, 64, {note(0, failed()), note(1, failed())}},
       "ranks 2, 3, 4 and 59 others of 64 have not answered: they are lost or cut off, or their "
       "machine is too busy",
       {"ranks 0 and 1 wait for them"},
       {"are lost: they", "ranks 2, 3, 4, 5"}},
      {"a killed rank, told by the board",
       told(),
       {0, 4, {note(0, told()), note(1, failed()), note(3, failed())}},
       "rank 2 of 4 is lost: it does not answer",
       {"connection closed by peer, on rank 1"},
       {}},
      {"a stopped rank",
       late(),
       {3, 4, {note(0, late()), note(1, late()), note(3, late())}},
       "rank 2 of 4 is lost: it does not answer",
       {"all_reduce #17 (431080 float32) did not complete within 2 s"},
       {}},
      {"two of eight",
       late(),
       {0,
        8,
        {note(0, late()), note(1, late()), note(2, late()), note(3, late()), note(5, late()),
         note(7, late())}},
       "ranks 4 and 6 of 8 are lost: they do not answer",
       {"ranks 0, 1, 2, 3, 5 and 7 wait for them"},
       {}},
      {"an error of its own comes before silence",
       failed(),
       {0, 4, {note(0, failed()), nan}},
       "rank 1 of 4 ended with: step 12: the loss is nan",
       {k17.c_str(), "mend that error first"},
       {"lost", "rank 2", "rank 3"}},
      {"the launcher saw it die",
       told(),
       {0, 4, {note(0, told()), {2, Kind::kLost, "killed by signal 9 (Killed)", {}}}},
       "rank 2 of 4 is lost: killed by signal 9 (Killed)",
       {"was in all_reduce #17", "rank 0 waits for it"},
       {"rank 1", "rank 3"}},
      {"a rank that is done is not to blame",
       failed(),
       {0, 3, {note(0, failed()), {1, Kind::kDone, "", {done(17)}}}},
       "rank 2 of 3 is lost",
       {"rank 0 waits for it"},
       {"rank 1"}},
      {"a rank that was done too early",
       late(),
       {0, 2, {note(0, late()), {1, Kind::kDone, "", kBefore17}}},
       "rank 1 of 2 has finished without taking part in all_reduce #17 (431080 float32); ",
       {"comm.check"},
       {"lost"}},
      {"a rank that lives and hangs",
       late(),
       {0, 3, {note(0, late()), note(1, late()), note(2, {}, kBefore17)}},
       "rank 2 of 3 is stuck: it answers, but has not taken part in all_reduce #17 (431080 "
       "float32), for "
       "which rank ",
       {"rank 2 had completed #16 and not started #17", "ranks 0 and 1 wait for it"},
       {"lost"}},
      {"the same, as it sees it itself",
       {},
       {2, 3, {note(0, late()), note(1, late()), note(2, {}, kBefore17)}},
       "rank 2 of 3 is stuck: it answers, but has not taken part in all_reduce #17 (431080 "
       "float32), for "
       "which rank ",
       {"did not complete within 2 s, on rank 0"},
       {"lost"}},
      {"a rank that is further is not behind",
       late(),
       {0, 2, {note(0, late()), note(1, {.pending = "x", .late_after_s = 2}, {in_call(18)})}},
       "all_reduce #17 (431080 float32) did not complete within 2 s, on rank 0, though all 2 ranks "
       "answer and ranks 0 and 1 have started all_reduce #17",
       {"comm.interface"},
       {"stuck", "lost"}},
      {"a broken connection is not the fault of who is behind",
       failed(),
       {0, 3, {note(0, failed()), note(1, failed()), note(2, {}, kBefore17)}},
       "all_reduce #17 (431080 float32) failed: connection closed by peer",
       {"though all 3 ranks answer"},
       {"stuck", "lost"}},
      {"the rendezvous",
       {.pending = "rendezvous", .late_after_s = 60},
       {0, 2, {note(0, {.pending = "rendezvous", .late_after_s = 60}, {})}},
       "rank 1 of 2 is lost: it does not answer; rendezvous did not complete within 60 s",
       {},
       {"#"}},
      {"nobody can be asked",
       late(),
       {0, 3, {note(0, late())}, "redis at 10.0.0.1:6379: no route to host"},
       "ranks 1 and 2 of 3 are lost, or rank 0 is cut off",
       {"10.0.0.1:6379"},
       {}},
      {"a rank that is cut off from the others, but not from the board",
       late(),
       {0,
        4,
        {note_without(0, 2, late()), note_without(1, 2, told()), note_without(2, 0, late()),
         note_without(3, 2, told())}},
       "rank 2 of 4 is cut off: it lives, but does not answer the others",
       {"comm.interface", "ranks 0, 1 and 3 wait for it"},
       {"rank 0 of 4", "stuck", "lost"}},
      {"that rank itself says the same",
       late(),
       {2, 3, {note_without(0, 2, told()), note_without(1, 2, told()), note_without(2, 0, late())}},
       "rank 2 of 3 is cut off",
       {},
       {"rank 0 of 3"}},
      {"two halves that do not hear each other",
       late(),
       {0,
        4,
        {note_without(0, 2, late()), note_without(1, 2, late()), note_without(2, 0, late()),
         note_without(3, 0, late())}},
       "all_reduce #17 (431080 float32) did not complete within 2 s, on rank 0, though all 4 ranks",
       {"the network between them is down"},
       {"is cut off"}},
      {"nothing is known but that somebody left",
       {},
       {0, 2, {note(0, {}, {}), note(1, {}, {})}},
       "another rank has left",
       {},
       {"lost"}},
  };
}

TEST(Diagnose, NamesTheRankThatIsToBlame) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const std::string message = diagnose(c.incident, c.evidence);
    EXPECT_THAT(message, StartsWith(c.start));
    for (const char* text : c.contains) EXPECT_THAT(message, HasSubstr(text));
    for (const char* text : c.lacks) EXPECT_THAT(message, Not(HasSubstr(text)));
  }
}

// The mesh of parallel/mesh.h with two ranks along each axis: rank = 4 pipeline + 2 data + tensor.
constexpr Channel kData{0}, kTensor{2}, kAll{4};
Channel send_to(int stage) { return {3, RT_SEND, stage}; }
Channel receive_from(int stage) { return {3, RT_RECEIVE, stage}; }

Groups mesh() {
  return {{"the data axis", "", "the tensor axis", "the pipeline axis", "all ranks"},
          [](uint64_t communicator, int rank) -> std::vector<int> {
            if (communicator == 4) return {0, 1, 2, 3, 4, 5, 6, 7};
            const int bit = communicator == 2 ? 1 : communicator == 3 ? 4 : 2;
            return {rank & ~bit, rank | bit};
          }};
}

// The message of rank 0 when all ranks have answered: those that wait in a call are late.
std::string message_in_mesh(const std::array<Channels, 8>& channels) {
  const Incident late{.pending = "x", .late_after_s = 2};
  Evidence e{.self = 0, .world_size = 8, .groups = mesh()};
  for (int rank = 0; rank < 8; ++rank) {
    const bool waits = Waits({{rank, channels[rank]}}, e.groups, 8).of(rank).has_value();
    e.notes.push_back(note(rank, waits ? late : Incident{}, channels[rank]));
  }
  return diagnose(late, e);
}

// Rank 5 hangs in its backward pass. Its neighbour along the tensor axis waits for it in an
// all-reduce, the first stage waits for gradients, and their replicas for both in the reduction of
// gradients. The ranks have made very different numbers of calls.
TEST(Diagnose, NamesTheStuckRankOfAMesh) {
  const Channels first{in_call(9, receive_from(1), RT_RECEIVE), done(12, kTensor), done(4, kData)};
  const Channels ready{in_call(5, kData), done(90, kTensor), done(9, send_to(0))};
  std::array<Channels, 8> channels;
  channels[0] = channels[1] = first;
  channels[2] = channels[3] = {in_call(5, kData), done(9, receive_from(1))};
  channels[4] = {in_call(90, kTensor), done(4, kData), done(8, send_to(0))};
  channels[4][0].pending.wait_ns = 1;  // before the others
  channels[5] = {done(89, kTensor), done(4, kData), done(8, send_to(0))};
  channels[6] = channels[7] = ready;
  const std::string message = message_in_mesh(channels);
  EXPECT_THAT(message,
              StartsWith("rank 5 of 8 is stuck: it answers, but has not taken part in "
                         "all_reduce #90 of the tensor axis (431080 float32), for which rank 4"));
  EXPECT_THAT(message, HasSubstr("rank 5 had completed #89 and not started #90"));
  EXPECT_THAT(message, HasSubstr("ranks 0, 1, 2, 3, 4, 6 and 7 wait for it"));
}

TEST(Diagnose, NamesTheStuckRankOfAPipeline) {
  std::array<Channels, 8> channels;
  channels.fill({in_call(3, kAll)});
  channels[0] = {done(7, send_to(1)), done(2, kAll)};
  channels[4] = {in_call(8, receive_from(0), RT_RECEIVE), done(2, kAll)};
  EXPECT_THAT(
      message_in_mesh(channels),
      testing::AnyOf(StartsWith("rank 0 of 8 is stuck: it answers, but has not taken part in "
                                "receive #8 from rank 0 along the pipeline axis"),
                     StartsWith("rank 0 of 8 is stuck: it answers, but has not taken part in "
                                "all_reduce #3 of all ranks")));
}

TEST(Diagnose, ACallThatAllRanksOfItsCommunicatorHaveStartedIsTheNetworks) {
  std::array<Channels, 8> channels;
  channels.fill({in_call(3, kAll)});
  channels[2] = channels[3] = {in_call(40, kTensor), done(2, kAll)};
  EXPECT_THAT(message_in_mesh(channels),
              HasSubstr("though all 8 ranks answer and ranks 2 and 3 have started all_reduce #40 "
                        "of the tensor axis (431080 float32); the network between them"));
}

TEST(Diagnose, NamesCallsThatDoNotMatch) {
  std::array<Channels, 8> channels;
  channels.fill({in_call(3, kAll)});
  channels[2] = {in_call(40, kTensor), done(2, kAll)};
  channels[3] = {in_call(40, kTensor, RT_BROADCAST), done(2, kAll)};
  const std::string message = message_in_mesh(channels);
  EXPECT_THAT(message, StartsWith("the ranks disagree on their calls: rank "));
  EXPECT_THAT(message, HasSubstr("broadcast #40 of the tensor axis (431080 float32)"));
  EXPECT_THAT(message, HasSubstr("all_reduce #40 of the tensor axis (431080 float32)"));
  EXPECT_THAT(message, HasSubstr("comm.check"));
  EXPECT_THAT(message, Not(HasSubstr("network")));
}

TEST(Diagnose, NamesRanksThatWaitForEachOther) {
  std::array<Channels, 8> channels;
  channels.fill({in_call(3, kAll)});
  channels[2] = {in_call(40, kTensor), done(2, kAll), done(6, kData)};
  channels[3] = {done(39, kTensor), done(2, kAll), in_call(7, kData)};
  channels[1] = {done(39, kTensor), in_call(3, kAll), done(6, kData)};
  const std::string message = message_in_mesh(channels);
  EXPECT_THAT(message, testing::ContainsRegex("^ranks [0-9, and]+ of 8 wait for each other, so "
                                              "they disagree on the order of their calls: rank "));
  EXPECT_THAT(message, HasSubstr("rank 3 in all_reduce #7 of the data axis (431080 float32)"));
  EXPECT_THAT(message, HasSubstr("rank 2 in all_reduce #40 of the tensor axis (431080 float32)"));
  EXPECT_THAT(message, Not(HasSubstr("network")));
}

TEST(Diagnose, QuotesTheRecorderOfTheLostRank) {
  Evidence evidence{
      .self = 0, .world_size = 2, .notes = {note(0, failed())}, .now_ns = 5'000'000'000};
  CollectiveRecord r{.sequence = 16, .start_ns = 1'000'000'000, .end_ns = 2'500'000'000};
  r.number = 16;
  evidence.recorders[1] = {.rank = 1, .origin_ns = 0, .records = {r}};
  EXPECT_THAT(diagnose(failed(), evidence),
              HasSubstr("rank 1 had completed #16 and not started #17, last sign of it 2.5 s ago"));
  r = {.sequence = 17, .start_ns = 4'000'000'000};
  r.number = 17;
  evidence.recorders[1].records.push_back(r);
  EXPECT_THAT(diagnose(failed(), evidence),
              HasSubstr("rank 1 had completed #16 and started #17, last sign of it 1 s ago"));
}

}  // namespace
}  // namespace runtime::watch
