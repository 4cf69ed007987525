// The launcher on one of several machines.
#ifndef TOOLS_LAUNCH_AGENT_H_
#define TOOLS_LAUNCH_AGENT_H_

namespace tools::launch {

// Reads an Assignment from the standard input, starts its ranks, and returns their exit code. What
// follows in the input are orders (runtime/launch/orders.h). Call it before other
// threads are made.
int serve();

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_AGENT_H_
