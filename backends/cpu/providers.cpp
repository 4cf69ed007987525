// Lists the providers of a device in the order in which they are asked.
#include "backends/cpu/providers.h"

#include "backends/cpu/batch_blocked/provider.h"
#include "backends/cpu/bfloat16/product_provider.h"
#include "backends/cpu/bfloat16/provider.h"
#include "backends/cpu/native_provider.h"
#include "backends/cpu/onednn_provider.h"
#include "backends/cpu/products/packed_provider.h"
#include "backends/cpu/products/provider.h"

namespace backends::cpu {

void add_providers(Engine& engine) {
  engine.add(std::make_unique<OnednnProvider>(engine, engine.layouts()));
  engine.add(std::make_unique<NativeProvider>(engine, engine.layouts()));
  engine.add(std::make_unique<BatchBlockedProvider>(engine));
  engine.add(std::make_unique<Bfloat16ProductProvider>(engine));
  engine.add(std::make_unique<Bfloat16Provider>(engine, engine.layouts()));
  engine.add(std::make_unique<ProductProvider>(engine));
  engine.add(std::make_unique<PackedProvider>(engine));
}

}  // namespace backends::cpu
