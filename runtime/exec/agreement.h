// Makes sure, before the first step of a batch size, that no rank will wait for ever in it.
#ifndef RUNTIME_EXEC_AGREEMENT_H_
#define RUNTIME_EXEC_AGREEMENT_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/exec/collectives.h"

namespace runtime::exec {

// RankGroups says which ranks do things together. Communicators are numbered as in
// graph::Collective::communicator.
struct RankGroups {
  std::vector<int> replicas = {};  // the ranks with the same slices of the model, this one included
  // The communicators on which their ranks make equal calls, with these ranks.
  std::map<int, std::vector<int>> equal = {};
  // The communicators over which, one after the other, the ranks that have one model are reached,
  // with their numbers of ranks.
  std::map<int, int> of_model = {};
};

// Throws CommunicationError, which names ranks and the first calls that do not fit, unless
// - the ranks with the same slices of the model do the same in the same order,
// - ranks that share a communicator make equal calls on it, and
// - the ranks that together have one model do not wait for each other for ever.
// All ranks of the job call it. `step` is for messages: "a step of 64 samples".
void agree_on(const watch::Plan& plan, const std::string& step, const RankGroups& groups,
              Collectives& collectives);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_AGREEMENT_H_
