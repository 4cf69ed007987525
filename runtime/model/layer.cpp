// Looks into layers that contain others.
#include "runtime/model/layer.h"

namespace runtime::model {

namespace {

template <class Kind>
std::vector<std::vector<Layer>*> lists(Kind&) {
  return {};
}
std::vector<std::vector<Layer>*> lists(Block& block) { return {&block.layers}; }
std::vector<std::vector<Layer>*> lists(Attention& a) { return {&a.query, &a.key, &a.value}; }
std::vector<std::vector<Layer>*> lists(Residual& r) { return {&r.layers, &r.shortcut}; }
std::vector<std::vector<Layer>*> lists(Join& join) { return {&join.layers, &join.other}; }
std::vector<std::vector<Layer>*> lists(Gated& gated) { return {&gated.gate, &gated.up}; }
std::vector<std::vector<Layer>*> lists(AuxiliaryHead& head) { return {&head.layers}; }

}  // namespace

std::vector<std::vector<Layer>*> lists_of(Layer& layer) {
  return std::visit([](auto& kind) { return lists(kind); }, layer.kind);
}

std::vector<const std::vector<Layer>*> lists_of(const Layer& layer) {
  // The lists are only read.
  const std::vector<std::vector<Layer>*> found = lists_of(const_cast<Layer&>(layer));
  return {found.begin(), found.end()};
}

}  // namespace runtime::model
