// The collectives. They block and run on the calling thread.
#ifndef COLLECTIVES_GLOO_ALGORITHMS_H_
#define COLLECTIVES_GLOO_ALGORITHMS_H_

#include <memory>

#include "mesh.h"
#include "rt/communicator.h"

namespace collectives::gloo {

// Carries out every collective except send and receive. `call` must have been checked. Throws what
// Gloo and Transport throw.
void carry_out(const std::shared_ptr<Mesh>& mesh, const rt_collective& call);

}  // namespace collectives::gloo

#endif  // COLLECTIVES_GLOO_ALGORITHMS_H_
