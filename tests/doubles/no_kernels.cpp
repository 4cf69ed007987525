#include "backends/gpu/plan.h"

namespace backends::gpu {

Family elementwise_family() { return {}; }
Family reduction_family() { return {}; }
Family loss_family() { return {}; }
Family normalisation_family() { return {}; }
Family product_family() { return {}; }
Family pooling_family() { return {}; }
Family attention_family() { return {}; }
Family movement_family() { return {}; }
Family optimizer_family() { return {}; }

}  // namespace backends::gpu
