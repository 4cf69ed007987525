// The keys of rotary positions in configurations of transformers, old and new.
#include "runtime/exchange/decoder.h"

namespace runtime::exchange {

namespace {

using model::Rotations;
using model::RotationScaling;

// Above 0 and finite.
double positive(const JsonObject& from, const std::string& key,
                std::optional<double> fallback = std::nullopt) {
  const double value = from.number(key, fallback);
  if (!(value > 0)) from.fail(key, "a number above 0");
  return value;
}

void read_yarn(const JsonObject& from, int64_t places, Rotations& r) {
  r.scaling = RotationScaling::kYarn;
  r.original_length = from.integer("original_max_position_embeddings", 1, places);
  r.factor = positive(from, "factor");
  r.high = positive(from, "beta_fast", 32);
  r.low = positive(from, "beta_slow", 1);
  if (from.has("attention_factor")) r.attention = positive(from, "attention_factor");
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    if (from.has(key)) from.fail(key, "no such key; it is not supported");
  }
  if (from.has("truncate") && !from.flag("truncate", true)) from.fail("truncate", "true");
}

void read_llama3(const JsonObject& from, int64_t, Rotations& r) {
  r.scaling = RotationScaling::kLlama3;
  r.original_length = from.integer("original_max_position_embeddings", 1);
  r.factor = positive(from, "factor");
  r.low = positive(from, "low_freq_factor");
  r.high = positive(from, "high_freq_factor");
}

void read_linear(const JsonObject& from, int64_t, Rotations& r) {
  r.scaling = RotationScaling::kLinear;
  r.factor = positive(from, "factor");
}

void read_none(const JsonObject&, int64_t, Rotations&) {}

struct ScalingName {
  std::string_view name;
  void (*read)(const JsonObject& from, int64_t places, Rotations& rotations);
};
constexpr ScalingName kScalings[] = {
    {"default", read_none}, {"linear", read_linear}, {"llama3", read_llama3}, {"yarn", read_yarn}};

}  // namespace

// The older keys are rope_theta beside rope_scaling; the newer one, rope_parameters, has both.
Rotations read_rotations(const JsonObject& config, int64_t head_width, int64_t places) {
  const char* const key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const bool given = config.has(key);
  const JsonObject from =
      given ? config.object(key) : JsonObject(nlohmann::json::object(), config.where());
  Rotations r;
  r.base = positive(from.has("rope_theta") ? from : config, "rope_theta", 10000);
  if (!(r.base > 1)) config.fail("rope_theta", "a number above 1");
  const JsonObject& has_part = from.has("partial_rotary_factor") ? from : config;
  const double part = has_part.share("partial_rotary_factor", 1);
  const auto columns = static_cast<int64_t>(static_cast<double>(head_width) * part);
  if (columns % 2 != 0)
    config.fail("head_dim", "an even number of features that turn, not " + std::to_string(columns));
  if (columns != head_width) r.columns = columns;
  const std::string type_key = from.has("rope_type") || !from.has("type") ? "rope_type" : "type";
  const std::string type = from.text(type_key, "default");
  for (const ScalingName& scaling : kScalings) {
    if (scaling.name != type) continue;
    scaling.read(from, places, r);
    if (r.factor < 1) from.fail("factor", "at least 1");
    return r;
  }
  from.fail(type_key, "default, linear, llama3 or yarn");
}

nlohmann::ordered_json rope_scaling(const Rotations& r) {
  switch (r.scaling) {
    case RotationScaling::kNone:
      return nullptr;
    case RotationScaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", r.factor}};
    case RotationScaling::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", r.factor},
              {"low_freq_factor", r.low},
              {"high_freq_factor", r.high},
              {"original_max_position_embeddings", r.original_length}};
    case RotationScaling::kYarn: {
      nlohmann::ordered_json json = {{"rope_type", "yarn"},
                                     {"factor", r.factor},
                                     {"beta_fast", r.high},
                                     {"beta_slow", r.low},
                                     {"original_max_position_embeddings", r.original_length}};
      if (r.attention != 0) json["attention_factor"] = r.attention;
      return json;
    }
  }
  return nullptr;
}

}  // namespace runtime::exchange
