#include "runtime/watch/diagnose.h"

#include <gmock/gmock.h>

namespace runtime::watch {
namespace {

using Kind = Note::Kind;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string k17 = "all_reduce #17 (431080 float32)";
constexpr Position kIn17{17, 16}, kBefore17{16, 16};

Incident late() { return {.pending = k17, .sequence = 17, .late_after_s = 2}; }
Incident failed() { return {.pending = k17, .sequence = 17, .error = "connection closed by peer"}; }
Incident told() { return {.pending = k17, .sequence = 17}; }

Note note(int rank, const Incident& incident, Position position = kIn17) {
  return {rank, incident.kind(), incident.text(), position};
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
       {0, 3, {note(0, failed()), {1, Kind::kDone, "", {17, 17}}}},
       "rank 2 of 3 is lost",
       {"rank 0 waits for it"},
       {"rank 1"}},
      {"a rank that was done too early",
       late(),
       {0, 2, {note(0, late()), {1, Kind::kDone, "", kBefore17}}},
       "rank 1 of 2 has finished without taking part in #17",
       {"comm.check"},
       {"lost"}},
      {"a rank that lives and hangs",
       late(),
       {0, 3, {note(0, late()), note(1, late()), note(2, {}, kBefore17)}},
       "rank 2 of 3 is stuck: it answers, but has not started #17",
       {"rank 2 had completed #16 and not started #17", "ranks 0 and 1 wait for it"},
       {"lost"}},
      {"the same, as it sees it itself",
       {},
       {2, 3, {note(0, late()), note(1, late()), note(2, {}, kBefore17)}},
       "rank 2 of 3 is stuck: it answers, but has not started #17",
       {"did not complete within 2 s, on rank 0"},
       {"lost"}},
      {"a rank that is further is not behind",
       late(),
       {0,
        2,
        {note(0, late()), note(1, {.pending = "x", .sequence = 18, .late_after_s = 2}, {18, 17})}},
       "all_reduce #17 (431080 float32) did not complete within 2 s, on rank 0, though all 2 ranks",
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

TEST(Diagnose, QuotesTheRecorderOfTheLostRank) {
  Evidence evidence{
      .self = 0, .world_size = 2, .notes = {note(0, failed())}, .now_ns = 5'000'000'000};
  evidence.recorders[1] = {
      .rank = 1,
      .origin_ns = 0,
      .records = {{.sequence = 16, .start_ns = 1'000'000'000, .end_ns = 2'500'000'000}}};
  EXPECT_THAT(diagnose(failed(), evidence),
              HasSubstr("rank 1 had completed #16 and not started #17, last sign of it 2.5 s ago"));
  evidence.recorders[1].records.push_back({.sequence = 17, .start_ns = 4'000'000'000});
  EXPECT_THAT(diagnose(failed(), evidence),
              HasSubstr("rank 1 had completed #16 and started #17, last sign of it 1 s ago"));
}

}  // namespace
}  // namespace runtime::watch
