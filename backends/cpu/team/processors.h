// In which order the threads of a team are put on processors.
#ifndef BACKENDS_CPU_TEAM_PROCESSORS_H_
#define BACKENDS_CPU_TEAM_PROCESSORS_H_

#include <vector>

namespace backends::cpu {

// Where a processor is.
struct Processor {
  int number = 0;   // as sched_setaffinity counts
  int node = 0;     // NUMA node, whose memory is near
  int sibling = 0;  // which hardware thread of its core it is: 0, 1...
};

// Sorts processors so that the first n are the best for n threads: those of one node before those
// of the next one, and in a node one hardware thread of each core before the second ones.
void sort_for_threads(std::vector<Processor>& processors);

// The processors that the calling thread may run on, sorted. Where the system does not say where
// they are, all are on node 0, each with a core of its own.
std::vector<Processor> processors_of_this_thread();

// Lets the calling thread run on one processor only. It is no error if the system refuses, because
// that affects only speed.
void pin_to(const Processor& processor);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_TEAM_PROCESSORS_H_
