#include "tests/differential/operations/report.h"

#include <algorithm>
#include <fstream>

#include "rt/sdk/operation.h"
#include "tests/differential/operations/family.h"

namespace differential {

using nlohmann::json;

namespace {

void count(std::map<std::string, int64_t>& counts, const std::string& key, int64_t n = 1) {
  counts[key] += n;
}

void merge(std::map<std::string, int64_t>& into, const std::map<std::string, int64_t>& from) {
  for (const auto& [key, n] : from) into[key] += n;
}

bool crashed(const Outcome& outcome) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(),
                     [](const Finding& f) { return f.kind == "crashed"; });
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text.empty() ? "none" : text;
}

json finding_json(const Finding& f) {
  return {{"kind", f.kind}, {"implementation", f.implementation}, {"detail", f.detail}};
}

Finding finding_from(const json& j) {
  return {j.at("kind"), j.at("implementation"), j.at("detail")};
}

json tally_json(const Tally& t) {
  json rows = json::object();
  for (const auto& [name, r] : t.rows)
    rows[name] = {r.cases, r.candidates, r.wrong, r.refused, r.crashed};
  return {{"rows", rows},         {"implementations", t.implementations},
          {"types", t.types},     {"post", t.post},
          {"fills", t.fills},     {"plants", t.plants},
          {"threads", t.threads}, {"refusals", t.refusals},
          {"numbers", t.numbers}};
}

Tally tally_from(const json& j) {
  Tally t;
  for (const auto& [name, r] : j.at("rows").items())
    t.rows[name] = {r.at(0), r.at(1), r.at(2), r.at(3), r.at(4)};
  j.at("implementations").get_to(t.implementations);
  j.at("types").get_to(t.types);
  j.at("post").get_to(t.post);
  j.at("fills").get_to(t.fills);
  j.at("plants").get_to(t.plants);
  j.at("threads").get_to(t.threads);
  j.at("refusals").get_to(t.refusals);
  j.at("numbers").get_to(t.numbers);
  return t;
}

}  // namespace

void Tally::add(const Recipe& recipe, const Outcome& outcome) {
  Row& row = rows[recipe.operation];
  ++row.cases;
  row.candidates += outcome.candidates;
  row.crashed += crashed(outcome);
  row.wrong += !outcome.findings.empty() && !crashed(outcome);
  row.refused += outcome.status == "refused";
  if (!outcome.reason.empty()) count(refusals, recipe.operation + ": " + outcome.reason);
  for (const std::string& name : outcome.implementations)
    count(implementations, recipe.operation + " " + name);
  count(types, rt::sdk::to_string(recipe.dtype));
  if (family_of(recipe.operation).takes_post_operations()) count(post, joined(recipe.post));
  count(fills, recipe.fill);
  for (const Plant& p : recipe.plants) count(plants, p.value);
  count(threads, std::to_string(recipe.threads));
  for (const auto& [name, value] : recipe.numbers) {
    const auto [at, fresh] = numbers.try_emplace(recipe.operation + "." + name, value, value);
    if (!fresh)
      at->second = {std::min(at->second.first, value), std::max(at->second.second, value)};
  }
}

void Tally::add(const Tally& other) {
  for (const auto& [name, r] : other.rows) {
    Row& row = rows[name];
    row.cases += r.cases;
    row.candidates += r.candidates;
    row.wrong += r.wrong;
    row.refused += r.refused;
    row.crashed += r.crashed;
  }
  merge(implementations, other.implementations);
  merge(types, other.types);
  merge(post, other.post);
  merge(fills, other.fills);
  merge(plants, other.plants);
  merge(threads, other.threads);
  merge(refusals, other.refusals);
  for (const auto& [name, range] : other.numbers) {
    const auto [at, fresh] = numbers.try_emplace(name, range);
    if (!fresh)
      at->second = {std::min(at->second.first, range.first),
                    std::max(at->second.second, range.second)};
  }
}

json to_json(const Outcome& outcome) {
  json findings = json::array();
  for (const Finding& f : outcome.findings) findings.push_back(finding_json(f));
  return {{"status", outcome.status},
          {"reason", outcome.reason},
          {"candidates", outcome.candidates},
          {"implementations", outcome.implementations},
          {"findings", findings}};
}

Outcome outcome_from_json(const json& j) {
  Outcome outcome;
  j.at("status").get_to(outcome.status);
  j.at("reason").get_to(outcome.reason);
  j.at("candidates").get_to(outcome.candidates);
  j.at("implementations").get_to(outcome.implementations);
  for (const json& f : j.at("findings")) outcome.findings.push_back(finding_from(f));
  return outcome;
}

json to_json(const Chunk& chunk) {
  json failures = json::array();
  for (const Failure& f : chunk.failures)
    failures.push_back(
        {{"case", f.recipe}, {"shrunk", f.shrunk}, {"finding", finding_json(f.finding)}});
  return {{"device", chunk.device},
          {"isa", chunk.isa},
          {"what", chunk.what},
          {"seed", chunk.seed},
          {"tally", tally_json(chunk.tally)},
          {"failures", failures}};
}

Chunk chunk_from_json(const json& j) {
  Chunk chunk{
      j.at("device"), j.at("isa"), j.at("what"), j.at("seed"), tally_from(j.at("tally")), {}};
  for (const json& f : j.at("failures"))
    chunk.failures.push_back({f.at("case"), f.at("shrunk"), finding_from(f.at("finding"))});
  return chunk;
}

std::vector<Chunk> read_results(const std::filesystem::path& file) {
  std::vector<Chunk> chunks;
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (in.eof()) break;  // the last line is incomplete: the run was stopped
    try {
      chunks.push_back(chunk_from_json(json::parse(line)));
    } catch (const std::exception& e) {
      throw std::runtime_error(file.string() + ", line " + std::to_string(number) +
                               " is no result of differential_operations: " + e.what());
    }
  }
  return chunks;
}

}  // namespace differential
