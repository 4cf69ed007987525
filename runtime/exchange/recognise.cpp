// Finds the family of a model in its layers. Only what tells models of a family apart is read here;
// the caller compares the rest with the layers that the family would have.
#include <algorithm>

#include "runtime/exchange/bert.h"
#include "runtime/exchange/decoder.h"
#include "runtime/exchange/gpt2.h"
#include "runtime/graph/activations.h"

namespace runtime::exchange {

namespace {

using model::Layer;

// Collects the layers of a type, those inside of others included, in their order.
template <class Kind>
void collect(const std::vector<Layer>& layers, std::vector<const Layer*>& found) {
  for (const Layer& layer : layers) {
    if (std::holds_alternative<Kind>(layer.kind)) found.push_back(&layer);
    for (const std::vector<Layer>* inside : model::lists_of(layer)) collect<Kind>(*inside, found);
  }
}

template <class Kind>
std::vector<const Layer*> all_of(const model::Model& model) {
  std::vector<const Layer*> found;
  collect<Kind>(model.layers, found);
  return found;
}

// The layer of a type whose name ends so; null if there is none.
template <class Kind>
const Layer* find_layer(const model::Model& model, const std::string& end) {
  for (const Layer* layer : all_of<Kind>(model)) {
    if (layer->name.ends_with(end)) return layer;
  }
  return nullptr;
}

template <class Kind>
const Kind* find(const model::Model& model, const std::string& end) {
  const Layer* const layer = find_layer<Kind>(model, end);
  return layer == nullptr ? nullptr : &std::get<Kind>(layer->kind);
}

// The blocks: one that is repeated, or those with a name of their own.
std::vector<const Layer*> blocks_of(const model::Model& model) {
  std::vector<const Layer*> found;
  for (const Layer& layer : model.layers) {
    if (!std::holds_alternative<model::Block>(layer.kind)) continue;
    for (int64_t i = 0; i < layer.repeat; ++i) found.push_back(&layer);
  }
  return found;
}

const model::Attention* attention_in(const Layer& block) {
  std::vector<const Layer*> found;
  for (const std::vector<Layer>* inside : model::lists_of(block))
    collect<model::Attention>(*inside, found);
  return found.empty() ? nullptr : &std::get<model::Attention>(found[0]->kind);
}

// llama has one bias for all projections or none; qwen2 has those of queries, keys and values;
// qwen3 normalises the heads; and mistral has a window in every layer.
std::string decoder_type(const Decoder& d) {
  if (d.head_norms) return "qwen3";
  if (d.query_bias && !d.output_bias) return "qwen2";
  for (const int64_t window : d.windows) {
    if (window == 0) return "llama";
  }
  return "mistral";
}

}  // namespace

std::unique_ptr<Architecture> recognise_decoder(const model::Model& model) {
  const auto* const embedding = find<model::Embedding>(model, "model.embed_tokens");
  const auto* const query = find<model::Linear>(model, "self_attn.q_proj");
  const auto* const output = find<model::Linear>(model, "self_attn.o_proj");
  const auto* const gate = find<model::Linear>(model, "mlp.gate_proj");
  const auto* const norm = find<model::RmsNorm>(model, "model.norm");
  const auto* const head = find<model::Linear>(model, "lm_head");
  const auto gated = all_of<model::Gated>(model), rotary = all_of<model::Rotary>(model);
  const std::vector<const Layer*> blocks = blocks_of(model);
  if (!embedding || !query || !output || !gate || !norm || !head || gated.empty() ||
      rotary.empty() || blocks.empty() || model.input.size() != 1)
    return nullptr;
  auto d = std::make_unique<Decoder>();
  for (const Layer* block : blocks) {
    const model::Attention* const attention = attention_in(*block);
    if (attention == nullptr) return nullptr;
    d->windows.push_back(attention->options.window);
  }
  const graph::DotProductAttention& options = attention_in(*blocks[0])->options;
  d->tokens = embedding->vocabulary, d->width = embedding->features;
  d->places = model.input[0];
  d->hidden = gate->features;
  d->heads = options.heads;
  d->key_heads = options.key_heads > 0 ? options.key_heads : options.heads;
  d->head_width = query->features / d->heads;
  d->epsilon = norm->epsilon;
  d->rotations = std::get<model::Rotary>(rotary[0]->kind).rotations;
  d->function = graph::activation_name(std::get<model::Gated>(gated[0]->kind).function);
  d->query_bias = query->bias, d->output_bias = output->bias, d->mlp_bias = gate->bias;
  d->head_norms = find<model::RmsNorm>(model, "self_attn.q_norm") != nullptr;
  d->tied = !head->tie.empty();
  d->dropout = options.probability;
  d->model_type = decoder_type(*d);
  return d;
}

std::unique_ptr<Architecture> recognise_gpt2(const model::Model& model) {
  const auto* const embedding = find<model::Embedding>(model, "wte");
  const auto* const places = find<model::PositionEmbedding>(model, "wpe");
  const Layer* const hidden = find_layer<model::Linear>(model, "c_fc");
  const auto* const norm = find<model::LayerNorm>(model, "ln_f");
  const std::vector<const Layer*> blocks = blocks_of(model);
  if (!embedding || !places || !hidden || !norm || blocks.empty() || !attention_in(*blocks[0]) ||
      model.input.size() != 1)
    return nullptr;
  auto g = std::make_unique<Gpt2>();
  g->tokens = embedding->vocabulary, g->width = embedding->features;
  g->places = places->length != 0 ? places->length : model.input[0];
  g->hidden = std::get<model::Linear>(hidden->kind).features;
  g->function = graph::activation_name(hidden->activation);
  g->blocks = static_cast<int64_t>(blocks.size());
  const model::Attention& attention = *attention_in(*blocks[0]);
  g->heads = attention.options.heads;
  g->attention_dropout = attention.options.probability;
  g->epsilon = norm->epsilon;
  const auto probability = [](const Layer& layer) {
    return std::get<model::Dropout>(layer.kind).probability;
  };
  g->embedding_dropout = g->residual_dropout = 0;
  for (const Layer& layer : model.layers) {
    if (std::holds_alternative<model::Dropout>(layer.kind))
      g->embedding_dropout = probability(layer);
  }
  std::vector<const Layer*> inner;
  for (const std::vector<Layer>* inside : model::lists_of(*blocks[0]))
    collect<model::Dropout>(*inside, inner);
  if (!inner.empty()) g->residual_dropout = probability(*inner[0]);
  return g;
}

std::unique_ptr<Architecture> recognise_bert(const model::Model& model) {
  const auto* const embedding = find<model::Embedding>(model, "bert.embeddings.word_embeddings");
  const auto* const types = find<model::Embedding>(model, "bert.embeddings.token_type_embeddings");
  const auto* const places =
      find<model::PositionEmbedding>(model, "bert.embeddings.position_embeddings");
  const auto* const norm = find<model::LayerNorm>(model, "bert.embeddings.LayerNorm");
  const Layer* const hidden = find_layer<model::Linear>(model, "intermediate.dense");
  const std::vector<const Layer*> blocks = blocks_of(model);
  if (!embedding || !types || !places || !norm || !hidden || blocks.empty() ||
      !attention_in(*blocks[0]) || model.input.size() != 1)
    return nullptr;
  auto b = std::make_unique<Bert>();
  b->tokens = embedding->vocabulary, b->width = embedding->features;
  b->segments = types->vocabulary;
  b->places = places->length != 0 ? places->length : model.input[0];
  b->hidden = std::get<model::Linear>(hidden->kind).features;
  b->function = graph::activation_name(hidden->activation);
  b->epsilon = norm->epsilon;
  b->blocks = static_cast<int64_t>(blocks.size());
  b->heads = attention_in(*blocks[0])->options.heads;
  b->attention_dropout = attention_in(*blocks[0])->options.probability;
  // A dropout before the blocks is that of the embeddings, one behind them that of the classifier.
  bool behind = false;
  for (const Layer& layer : model.layers) {
    behind = behind || std::holds_alternative<model::Block>(layer.kind);
    if (const auto* const dropout = std::get_if<model::Dropout>(&layer.kind))
      (behind ? b->classifier_dropout : b->hidden_dropout) = dropout->probability;
  }
  if (const auto* const classifier = find<model::Linear>(model, "classifier")) {
    b->kind = Task::kClass;
    b->classes = classifier->features;
  } else if (const auto* const decoder = find<model::Linear>(model, "cls.predictions.decoder")) {
    b->kind = Task::kMaskedToken;
    b->tied = !decoder->tie.empty();
  } else {
    b->first_token = !all_of<model::FirstToken>(model).empty();
    b->normalised = std::any_of(model.layers.begin(), model.layers.end(), [](const Layer& layer) {
      const auto* const open = std::get_if<model::Open>(&layer.kind);
      return open != nullptr && open->operation->name.ends_with("l2_norm");
    });
  }
  return b;
}

}  // namespace runtime::exchange
