#include "runtime/watch/diagnose.h"

#include <algorithm>

#include "plugins/host/text.h"

namespace runtime::watch {
namespace {

using plugins::host::seconds_text;
using Kind = Note::Kind;

std::string number(uint64_t sequence) { return "#" + std::to_string(sequence); }

// "rank 2", "ranks 0, 1 and 3"
std::string name(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string name_of(const std::vector<int>& ranks, const Evidence& e) {
  return e.names.of(ranks) + " of " + std::to_string(e.world_size);
}

std::string are(const std::vector<int>& ranks) { return ranks.size() == 1 ? " is " : " are "; }

const Note* note_of(int rank, const Evidence& e) {
  const auto at =
      std::find_if(e.notes.begin(), e.notes.end(), [&](const Note& n) { return n.rank == rank; });
  return at == e.notes.end() ? nullptr : &*at;
}

std::vector<Note> notes_of(Kind kind, const Evidence& e) {
  std::vector<Note> notes;
  std::copy_if(e.notes.begin(), e.notes.end(), std::back_inserter(notes),
               [&](const Note& n) { return n.kind == kind; });
  return notes;
}

std::vector<int> silent_ranks(const Evidence& e) {
  std::vector<int> ranks;
  for (int rank = 0; rank < e.world_size; ++rank) {
    if (rank != e.self && note_of(rank, e) == nullptr) ranks.push_back(rank);
  }
  return ranks;
}

// "all_reduce #17 (431080 float32) did not complete within 2 s on rank 0": what went wrong on this
// rank, or else on the first rank where anything did.
std::string testimony(const Incident& incident, const Evidence& e) {
  if (incident.kind() != Kind::kTold) return incident.text() + ", on " + e.names.of(e.self);
  for (const Kind kind : {Kind::kLate, Kind::kFailed}) {
    for (const Note& n : notes_of(kind, e)) return n.text + ", on " + e.names.of(n.rank);
  }
  return incident.pending.empty() ? "" : e.names.of(e.self) + " was in " + incident.pending;
}

std::string clause(const std::string& text) { return text.empty() ? "" : "; " + text; }

// The first collective that a rank waited for past its deadline; 0 if it is not known.
uint64_t awaited(const Incident& incident, const Evidence& e) {
  uint64_t sequence = 0;
  for (const Note& n : notes_of(Kind::kLate, e)) {
    if (n.position.started <= n.position.completed) continue;
    const uint64_t next = n.position.completed + 1;
    sequence = sequence == 0 ? next : std::min(sequence, next);
  }
  return sequence == 0 ? incident.sequence : sequence;
}

// "; rank 2 had completed #16 and not started #17, last sign of it 2.1 s ago"; "" if unknown.
std::string last_seen(int rank, uint64_t awaited, const Evidence& e) {
  const auto recorder = e.recorders.find(rank);
  const Note* note = note_of(rank, e);
  if (recorder == e.recorders.end() && (note == nullptr || note->kind == Kind::kLost)) return "";
  const Position p = recorder == e.recorders.end() ? note->position : recorder->second.position();
  std::string text = "rank " + std::to_string(rank) + " had completed " +
                     (p.completed == 0 ? "no collective" : number(p.completed));
  if (p.started > p.completed)
    text += " and started " + number(p.started);
  else if (awaited > p.started)
    text += " and not started " + number(awaited);
  if (recorder == e.recorders.end() || recorder->second.records.empty()) return "; " + text;
  double seen = 0;
  for (const CollectiveRecord& r : recorder->second.records)
    seen = std::max<double>(seen, std::max(r.start_ns, r.end_ns));
  return "; " + text + ", last sign of it " +
         seconds_text(std::chrono::duration<double, std::nano>(e.now_ns - seen)) + " ago";
}

std::string last_seen(const std::vector<int>& ranks, uint64_t awaited, const Evidence& e) {
  std::string text;
  for (const int rank : ranks) text += last_seen(rank, awaited, e);
  return text;
}

std::string waiting(const std::vector<int>& guilty, const Evidence& e) {
  std::vector<int> others;
  for (int rank = 0; rank < e.world_size; ++rank) {
    const Note* n = note_of(rank, e);
    const bool waits = rank == e.self || (n != nullptr && n->kind != Kind::kDone);
    if (waits && std::find(guilty.begin(), guilty.end(), rank) == guilty.end())
      others.push_back(rank);
  }
  if (others.empty()) return "";
  return "; " + name(others) + (others.size() == 1 ? " waits" : " wait") +
         (guilty.size() == 1 ? " for it" : " for them");
}

constexpr const char* kStartAgain =
    "; look at the output and the machine of the lost ranks (killed, stopped, out of memory, cut "
    "off), then start the job again, or let --max-restarts do it";

std::string died(const std::vector<Note>& lost, const Incident& incident, const Evidence& e) {
  std::string text;
  std::vector<int> ranks;
  for (const Note& n : lost) {
    text += (text.empty() ? "" : "; ") + name_of({n.rank}, e) + " is lost: " + n.text;
    ranks.push_back(n.rank);
  }
  return text + clause(testimony(incident, e)) + last_seen(ranks, awaited(incident, e), e) +
         waiting(ranks, e) + kStartAgain;
}

std::string own_errors(const std::vector<Note>& notes, const Incident& incident,
                       const Evidence& e) {
  std::string text;
  for (const Note& n : notes)
    text += (text.empty() ? "" : "; ") + name_of({n.rank}, e) + " ended with: " + n.text;
  return text + clause(testimony(incident, e)) +
         "; the other ranks cannot go on without it: mend that error first";
}

std::string lost(const std::vector<int>& ranks, const Incident& incident, const Evidence& e) {
  std::string text = name_of(ranks, e) + are(ranks) + "lost";
  if (e.board_error.empty())
    text += ranks.size() == 1 ? ": it does not answer" : ": they do not answer";
  else
    text += ", or rank " + std::to_string(e.self) +
            " is cut off from the others, which could not be asked: " + e.board_error;
  return text + clause(testimony(incident, e)) + last_seen(ranks, awaited(incident, e), e) +
         waiting(ranks, e) + kStartAgain;
}

// Ranks that have not started `awaited`. Only if a deadline has passed: a rank that is behind when
// a connection breaks is not to blame.
std::vector<int> ranks_behind(uint64_t awaited, const Evidence& e) {
  std::vector<int> ranks;
  if (notes_of(Kind::kLate, e).empty()) return ranks;
  for (const Note& n : e.notes) {
    if (n.position.started < awaited) ranks.push_back(n.rank);
  }
  return ranks;
}

std::string stuck(const std::vector<int>& ranks, const Incident& incident, const Evidence& e) {
  const uint64_t sequence = awaited(incident, e);
  std::vector<int> done;
  for (const int rank : ranks) {
    if (note_of(rank, e)->kind == Kind::kDone) done.push_back(rank);
  }
  if (!done.empty())
    return name_of(done, e) + " has finished without taking part in " + number(sequence) + "; " +
           testimony(incident, e) + last_seen(done, sequence, e) +
           "; the ranks disagree about what there is to do: run again with comm.check = true";
  return name_of(ranks, e) + are(ranks) + "stuck: it answers, but has not started " +
         number(sequence) + "; " + testimony(incident, e) + last_seen(ranks, sequence, e) +
         waiting(ranks, e) +
         "; see what it does (its output, a debugger); if it is only slow, raise comm.timeout_s";
}

// The rank that most ranks report as silent on their connections. A report by one rank alone does
// not count, because that rank itself may be the one that is cut off.
std::vector<int> cut_off(const Evidence& e) {
  std::map<int, int> votes;
  for (const Note& n : e.notes) {
    if (n.silent >= 0 && n.silent < e.world_size && n.silent != n.rank) ++votes[n.silent];
  }
  int most = 0, with_most = 0;
  for (const auto& [rank, count] : votes) {
    if (count > most) with_most = 0;
    if (count >= most) ++with_most;
    most = std::max(most, count);
  }
  if (most < 2 || with_most > 1) return {};
  const auto found = std::find_if(votes.begin(), votes.end(),
                                  [&](const auto& vote) { return vote.second == most; });
  return {found->first};
}

std::string separated(const std::vector<int>& ranks, const Incident& incident, const Evidence& e) {
  return name_of(ranks, e) +
         " is cut off: it lives, but does not answer the others over their connections" +
         clause(testimony(incident, e)) + last_seen(ranks, awaited(incident, e), e) +
         waiting(ranks, e) +
         "; see the network of its machine and comm.interface, then start the job again";
}

std::string network(const Incident& incident, const Evidence& e) {
  const std::string what = testimony(incident, e);
  return (what.empty() ? "another rank has left" : what) + ", though all " +
         std::to_string(e.world_size) +
         " ranks answer; the network between them is down or too slow: see comm.interface, or "
         "raise comm.timeout_s";
}

}  // namespace

Note::Kind Incident::kind() const {
  if (late_after_s > 0) return Kind::kLate;
  return error.empty() ? Kind::kTold : Kind::kFailed;
}

std::string Incident::text() const {
  const std::string what = pending.empty() ? "the communicator" : pending;
  const std::string words = error.empty() ? "" : ": " + error;
  switch (kind()) {
    case Kind::kLate:
      return what + " did not complete within " +
             seconds_text(std::chrono::duration<double>(late_after_s)) + words;
    case Kind::kFailed:
      return what + " failed" + words;
    default:
      return pending.empty() ? "" : "was in " + pending;
  }
}

std::string diagnose(const Incident& incident, const Evidence& e) {
  if (const auto notes = notes_of(Kind::kLost, e); !notes.empty()) return died(notes, incident, e);
  if (const auto notes = notes_of(Kind::kOwnError, e); !notes.empty())
    return own_errors(notes, incident, e);
  if (const auto ranks = silent_ranks(e); !ranks.empty()) return lost(ranks, incident, e);
  if (const auto ranks = cut_off(e); !ranks.empty()) return separated(ranks, incident, e);
  if (const auto ranks = ranks_behind(awaited(incident, e), e); !ranks.empty())
    return stuck(ranks, incident, e);
  return network(incident, e);
}

}  // namespace runtime::watch
