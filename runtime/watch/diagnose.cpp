// Weighs notes, recorders and waits of all ranks, and words who is to blame.
#include "runtime/watch/diagnose.h"

#include <algorithm>

#include "plugins/host/text.h"
#include "runtime/watch/waits.h"

namespace runtime::watch {
namespace {

using plugins::host::seconds_text;
using Kind = Note::Kind;

// More ranks than these are not all lost at once: the machine is too busy to hear of them.
constexpr size_t kMostLost = 8;
// The words about more ranks than these would hide the sentence that counts.
constexpr size_t kMostQuoted = 2;

std::string number(uint64_t number) { return "#" + std::to_string(number); }

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

// How far the ranks are, from their notes, or from the recorders of ranks that have left none.
ChannelsOfRanks channels_of(const Evidence& e) {
  ChannelsOfRanks channels;
  for (const auto& [rank, recorder] : e.recorders) channels[rank] = recorder.channels();
  for (const Note& n : e.notes) {
    if (n.kind != Kind::kLost) channels[n.rank] = n.channels;
  }
  return channels;
}

// The evidence with what follows from it.
struct Findings {
  const Incident& incident;
  const Evidence& e;
  const ChannelsOfRanks channels = channels_of(e);
  const Waits waits = {channels, e.groups, e.world_size};
};

// The call in which another rank waits for this one.
std::optional<Wait> wait_for(int rank, const Findings& f) {
  for (const Note& n : f.e.notes) {
    auto wait = f.waits.of(n.rank);
    if (!wait || n.rank == rank) continue;
    const std::vector<int> partners = f.waits.partners(wait->call, wait->rank);
    if (std::find(partners.begin(), partners.end(), rank) != partners.end()) return wait;
  }
  return std::nullopt;
}

// "rank 2 had completed #16 and not started #17", with the numbers of the calls that `wait` is one
// of; "" if unknown.
std::string progress(int rank, const Wait& wait, const Findings& f) {
  const auto state = f.waits.met_by(rank, wait.call, wait.rank);
  if (!state) return "";
  const uint64_t completed =
      state->pending.sequence == 0 ? state->started : state->pending.number - 1;
  std::string text = f.e.names.of(rank) + " had completed " +
                     (completed == 0 ? "no such call" : number(completed));
  if (state->started > completed) return text + " and started " + number(state->started);
  return wait.call.number > state->started ? text + " and not started " + number(wait.call.number)
                                           : text;
}

// "; rank 2 had completed #16 and not started #17, last sign of it 2.1 s ago"; "" if unknown.
std::string last_seen(int rank, const std::optional<Wait>& wait, const Findings& f) {
  const std::string text = wait ? progress(rank, *wait, f) : "";
  const auto recorder = f.e.recorders.find(rank);
  if (recorder == f.e.recorders.end() || recorder->second.records.empty() || text.empty())
    return clause(text);
  double seen = 0;
  for (const CollectiveRecord& r : recorder->second.records)
    seen = std::max<double>(seen, std::max(r.start_ns, r.end_ns));
  return clause(text) + ", last sign of it " +
         seconds_text(std::chrono::duration<double, std::nano>(f.e.now_ns - seen)) + " ago";
}

std::string last_seen(const std::vector<int>& ranks, const Findings& f) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && ranks.size() <= kMostQuoted; ++i)
    text += last_seen(ranks[i], wait_for(ranks[i], f), f);
  return text;
}

std::string waiting(const std::vector<int>& offender, const Evidence& e) {
  std::vector<int> others;
  for (int rank = 0; rank < e.world_size; ++rank) {
    const Note* n = note_of(rank, e);
    const bool waits = rank == e.self || (n != nullptr && n->kind != Kind::kDone);
    if (waits && std::find(offender.begin(), offender.end(), rank) == offender.end())
      others.push_back(rank);
  }
  if (others.empty()) return "";
  return "; " + e.names.of(others) + (others.size() == 1 ? " waits" : " wait") +
         (offender.size() == 1 ? " for it" : " for them");
}

constexpr const char* kStartAgain =
    "; look at the output and the machine of the lost ranks (killed, stopped, out of memory, cut "
    "off), then start the job again, or let --max-restarts do it";

// The texts of the first notes, and how many more there are.
std::string quote(const std::vector<Note>& notes, const char* what, const Evidence& e) {
  std::string text;
  const size_t quoted = std::min(notes.size(), kMostQuoted);
  for (size_t i = 0; i < quoted; ++i)
    text += (i == 0 ? "" : "; ") + name_of({notes[i].rank}, e) + what + notes[i].text;
  if (quoted < notes.size())
    text += "; the same goes for " + std::to_string(notes.size() - quoted) + " others";
  return text;
}

std::string died(const std::vector<Note>& lost, const Findings& f) {
  std::vector<int> ranks;
  for (const Note& n : lost) ranks.push_back(n.rank);
  return quote(lost, " is lost: ", f.e) + clause(testimony(f.incident, f.e)) + last_seen(ranks, f) +
         waiting(ranks, f.e) + kStartAgain;
}

std::string own_errors(const std::vector<Note>& notes, const Findings& f) {
  return quote(notes, " ended with: ", f.e) + clause(testimony(f.incident, f.e)) +
         "; the other ranks cannot go on without it: mend that error first";
}

// Ranks whose connections have broken, as others say, and that have left no note.
std::vector<int> broken_ranks(const Evidence& e) {
  std::vector<int> ranks;
  for (const Note& n : e.notes) {
    const bool known = std::find(ranks.begin(), ranks.end(), n.broken) != ranks.end();
    if (n.broken >= 0 && n.broken < e.world_size && !known && note_of(n.broken, e) == nullptr)
      ranks.push_back(n.broken);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string gone(const std::vector<int>& ranks, const Findings& f) {
  return name_of(ranks, f.e) + are(ranks) +
         (ranks.size() == 1 ? "lost: its connections have broken without a word"
                            : "lost: their connections have broken without a word") +
         clause(testimony(f.incident, f.e)) + last_seen(ranks, f) + waiting(ranks, f.e) +
         kStartAgain;
}

std::string lost(const std::vector<int>& ranks, const Findings& f) {
  const Evidence& e = f.e;
  std::string text = name_of(ranks, e);
  if (ranks.size() > kMostLost)
    text +=
        " have not answered: they are lost or cut off, or their machine is too busy; see which "
        "rank the launcher or the other ranks name" +
        (e.board_error.empty() ? "" : " (" + e.board_error + ")");
  else if (!e.board_error.empty())
    text += are(ranks) + "lost, or " + e.names.of(e.self) +
            " is cut off from the others, which could not be asked: " + e.board_error;
  else
    text +=
        are(ranks) + (ranks.size() == 1 ? "lost: it does not answer" : "lost: they do not answer");
  return text + clause(testimony(f.incident, e)) + last_seen(ranks, f) + waiting(ranks, e) +
         kStartAgain;
}

std::string call_of(const Wait& wait, const Evidence& e) {
  return describe(wait.call, e.groups, wait.rank);
}

std::string stuck(const std::vector<int>& ranks, const Wait& wait, const Findings& f) {
  const std::string call = call_of(wait, f.e), said = testimony(f.incident, f.e);
  std::vector<int> done;
  for (const int rank : ranks) {
    if (note_of(rank, f.e)->kind == Kind::kDone) done.push_back(rank);
  }
  if (!done.empty())
    return name_of(done, f.e) + " has finished without taking part in " + call + "; " + said +
           last_seen(done, f) +
           "; the ranks disagree about what there is to do: run again with comm.check = true";
  return name_of(ranks, f.e) + are(ranks) +
         (ranks.size() == 1 ? "stuck: it answers, but has not taken part in "
                            : "stuck: they answer, but have not taken part in ") +
         call + ", for which " + f.e.names.of(wait.rank) + " waits; " + said +
         (ranks.size() == 1 ? last_seen(ranks[0], wait, f) : "") + waiting(ranks, f.e) +
         "; see what it does (its output, a debugger); if it is only slow, raise comm.timeout_s";
}

constexpr const char* kSameOrder =
    "; start all ranks with the same configuration, data and program, and run again with "
    "comm.check = true";

std::string disagreement(const Wait& wait, const std::pair<int, CollectiveRecord>& other,
                         const Findings& f) {
  return "the ranks disagree on their calls: " + f.e.names.of(wait.rank) + " of " +
         std::to_string(f.e.world_size) + " is in " + call_of(wait, f.e) + ", " +
         f.e.names.of(other.first) + " in " + describe(other.second, f.e.groups, other.first) +
         clause(testimony(f.incident, f.e)) + kSameOrder;
}

std::string circle(const std::vector<Wait>& waits, const Findings& f) {
  std::vector<int> ranks;
  std::string calls;
  for (const Wait& wait : waits) {
    if (ranks.size() < kMostLost)
      calls += (calls.empty() ? "" : ", ") + f.e.names.of(wait.rank) + " in " + call_of(wait, f.e);
    ranks.push_back(wait.rank);
  }
  return name_of(ranks, f.e) +
         " wait for each other, so they disagree on the order of their calls: " + calls +
         clause(testimony(f.incident, f.e)) + kSameOrder;
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

std::string separated(const std::vector<int>& ranks, const Findings& f) {
  return name_of(ranks, f.e) +
         " is cut off: it lives, but does not answer the others over their connections" +
         clause(testimony(f.incident, f.e)) + last_seen(ranks, f) + waiting(ranks, f.e) +
         "; see the network of its machine and comm.interface, then start the job again";
}

std::string network(const std::optional<Wait>& hanging, const Findings& f) {
  const std::string what = testimony(f.incident, f.e);
  std::string text = (what.empty() ? "another rank has left" : what) + ", though all " +
                     std::to_string(f.e.world_size) + " ranks answer";
  if (hanging)
    text += " and " + f.e.names.of(f.waits.partners(hanging->call, hanging->rank)) +
            " have started " + call_of(*hanging, f.e);
  return text +
         "; the network between them is down or too slow: see comm.interface, or raise "
         "comm.timeout_s";
}

// Why a call did not complete in time though all ranks answer.
std::string standstill(const Findings& f) {
  std::vector<int> late;
  for (const Note& n : notes_of(Kind::kLate, f.e)) late.push_back(n.rank);
  const Standstill found = f.waits.follow(late);
  if (found.for_stuck) return stuck(found.stuck, *found.for_stuck, f);
  if (found.hanging) {
    if (const auto other = f.waits.differs(*found.hanging))
      return disagreement(*found.hanging, *other, f);
  }
  if (!found.circle.empty()) return circle(found.circle, f);
  return network(found.hanging, f);
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
  const Findings f{incident, e};
  if (const auto notes = notes_of(Kind::kLost, e); !notes.empty()) return died(notes, f);
  if (const auto notes = notes_of(Kind::kOwnError, e); !notes.empty()) return own_errors(notes, f);
  if (const auto ranks = broken_ranks(e); !ranks.empty()) return gone(ranks, f);
  if (const auto ranks = silent_ranks(e); !ranks.empty()) return lost(ranks, f);
  if (const auto ranks = cut_off(e); !ranks.empty()) return separated(ranks, f);
  // A rank that is behind when a connection breaks is not to blame.
  return standstill(f);
}

}  // namespace runtime::watch
