// Where the time and the memory of a step go.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tools/report/chart.h"
#include "tools/report/section.h"
#include "tools/report/table.h"

namespace tools::report {

namespace {

constexpr double kNs = 1e-9;
// The part of a step that is exposed communication, see parts_of().
constexpr size_t kWaiting = 4;
// Parts may add up to a little more than the step, because each is a mean.
constexpr double kRounding = 1.01;
// Parts of a step below this share are not drawn.
constexpr double kLeastShare = 0.004;
constexpr size_t kMostRanks = 64, kMostLive = 40, kMostOperations = 500;

struct Part {
  const char* name;
  double ns;
  int colour;
  double within_ns = 0;  // time that is in other parts already
};

// What a step consists of. Phases that are not known take no time. Exposed communication is a part
// of its own only if it is not within the phases already.
std::vector<Part> parts_of(const RankProfile& rank) {
  std::vector<Part> parts = {{"forward", rank.forward_ns, 0},
                             {"backward", rank.backward_ns, 2},
                             {"update", rank.update_ns, 3},
                             {"packing", rank.pack_ns, 6},
                             {"waiting for ranks", rank.exposed_ns, 1},
                             {"waiting for data", rank.data_wait_ns, 4},
                             {"preparing", rank.prepare_ns, 5},
                             {"copying in", rank.upload_ns, 0},
                             {"reporting", rank.report_ns, 2},
                             {"between steps", rank.between_ns, 6},
                             {"async updates", rank.exchange_ns, 1}};
  double sum = 0;
  for (Part& part : parts) {
    if (!(part.ns > 0)) part.ns = 0;
    sum += part.ns;
  }
  Part& waiting = parts[kWaiting];
  if (sum > rank.step_ns * kRounding) {  // the phases contain it
    sum -= waiting.ns;
    waiting.within_ns = std::exchange(waiting.ns, 0);
  }
  parts.push_back({"other", std::max(0.0, rank.step_ns - sum), 7});
  return parts;
}

// The share of a bar of the least width (16 rem) that a name of the usual letters needs.
double room_for(const std::string& name) {
  return (0.45 * static_cast<double>(name.size()) + 0.8) / 16;
}

Html stack(const std::vector<Part>& parts) {
  double sum = 0;
  for (const Part& part : parts) sum += part.ns;
  Html html;
  for (const Part& part : parts) {
    if (!(part.ns > kLeastShare * sum) || !std::isfinite(sum)) continue;
    char width[40];
    std::snprintf(width, sizeof(width), "width:%.4g%%", part.ns / sum * 100);
    const std::string tip = std::string(part.name) + ": " +
                            to_text(part.ns * kNs, plot::Unit::kSeconds) + ", " +
                            to_text(part.ns / sum, plot::Unit::kFraction);
    html += element("span", part.ns / sum > room_for(part.name) ? part.name : "",
                    {{"class", colour_class(part.colour)},
                     {"style", width},
                     {"title", tip},
                     {"data-tip", tip}});
  }
  return element("div", html, {{"class", "stack"}, {"aria-hidden", "true"}});
}

// The parts that take time on any rank.
std::vector<bool> shown_parts(const Profile& profile) {
  std::vector<bool> shown(parts_of(profile.ranks[0]).size());
  for (const RankProfile& rank : profile.ranks) {
    const std::vector<Part> parts = parts_of(rank);
    for (size_t i = 0; i < parts.size(); ++i)
      shown[i] = shown[i] || parts[i].ns + parts[i].within_ns > 0;
  }
  return shown;
}

// Returns the time of a part; a time that other parts contain already is shown as such, not as 0.
Cell part_cell(const Part& part) {
  if (!(part.within_ns > 0)) return {part.ns * kNs, plot::Unit::kSeconds};
  Cell cell(Html::text(to_text(part.within_ns * kNs, plot::Unit::kSeconds)) +
            element("small", "within the phases"));
  cell.order = part.within_ns * kNs;
  return cell;
}

std::string name_of(const RankProfile& rank) {
  return std::to_string(rank.rank) + " " + rank.device;
}

Html step_bars(const Profile& profile) {
  Table table;
  table.caption = "Parts of a step, by rank";
  table.columns = {{"rank"}, {"a step"}};
  for (size_t i = 0; i < std::min(profile.ranks.size(), kMostRanks); ++i)
    table.rows.push_back(
        {Cell(name_of(profile.ranks[i])), Cell(stack(parts_of(profile.ranks[i])))});
  return to_html(table);
}

// The bars are a table of their own, because the numbers of all parts take a whole screen.
Html step_table(const Profile& profile) {
  Table table;
  table.caption = "Time of a step, by rank";
  table.columns = {{"rank"}, {"step", true}};
  const std::vector<bool> shown = shown_parts(profile);
  const std::vector<Part> names = parts_of(profile.ranks[0]);
  for (size_t part = 0; part < names.size(); ++part)
    if (shown[part]) table.columns.push_back({names[part].name, true});
  const bool device = std::any_of(profile.ranks.begin(), profile.ranks.end(), [](const auto& r) {
    return std::isfinite(r.device_utilisation);
  });
  table.columns.push_back({"cores in use", true});
  if (device) table.columns.push_back({"device in use", true});
  for (size_t i = 0; i < std::min(profile.ranks.size(), kMostRanks); ++i) {
    const RankProfile& rank = profile.ranks[i];
    std::vector<Cell> row = {Cell(name_of(rank)), Cell(rank.step_ns * kNs, plot::Unit::kSeconds)};
    const std::vector<Part> parts = parts_of(rank);
    for (size_t part = 0; part < parts.size(); ++part)
      if (shown[part]) row.push_back(part_cell(parts[part]));
    row.emplace_back(rank.cpu_utilisation, plot::Unit::kNumber);
    if (device) row.emplace_back(rank.device_utilisation, plot::Unit::kFraction);
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

// Exposed and hidden communication as bars of one length.
Html communication_table(const Profile& profile) {
  double most = 0;
  for (const RankProfile& rank : profile.ranks) {
    if (std::isfinite(rank.exposed_ns)) most = std::max(most, rank.exposed_ns);
    if (std::isfinite(rank.hidden_ns)) most = std::max(most, rank.hidden_ns);
  }
  if (most <= 0) return {};
  Table table;
  table.caption = "Communication of a step, exposed and hidden";
  table.columns = {
      {"rank"}, {"exposed"}, {"hidden"}, {"exposed share of the step", true}, {"bytes sent", true}};
  for (size_t i = 0; i < std::min(profile.ranks.size(), kMostRanks); ++i) {
    const RankProfile& rank = profile.ranks[i];
    const auto cell = [&](double ns, int colour) {
      return Cell(bar(to_text(ns * kNs, plot::Unit::kSeconds), ns / most, colour));
    };
    table.rows.push_back({Cell(std::to_string(rank.rank)), cell(rank.exposed_ns, 1),
                          cell(rank.hidden_ns, 2),
                          Cell(rank.exposed_ns / rank.step_ns, plot::Unit::kFraction),
                          Cell(rank.communicated_bytes, plot::Unit::kBytes)});
  }
  return element("h4", "Communication") +
         element("p", "Exposed: the rank waits. Hidden: it computes meanwhile.") + to_html(table);
}

// An amount in each second that an operation takes.
Cell rate(double amount, double time_ns, double unit) {
  return {amount > 0 && time_ns > 0 ? amount / time_ns / unit
                                    : std::numeric_limits<double>::quiet_NaN(),
          plot::Unit::kNumber};
}

std::vector<Cell> operation_row(const ProfiledOperation& o, double longest, double step_ns) {
  const double share = std::isfinite(o.share) ? o.share : o.time_ns / step_ns;
  Cell time(bar(to_text(o.time_ns * kNs, plot::Unit::kSeconds), o.time_ns / longest));
  time.order = o.time_ns;
  return {Cell(breakable(o.name)),
          Cell(breakable(o.layer)),
          Cell(o.phase),
          std::move(time),
          Cell(share, plot::Unit::kFraction),
          Cell(o.calls, plot::Unit::kNumber),
          rate(o.flops, o.time_ns, 1),
          rate(o.bytes, o.time_ns, 1),
          Cell(o.roofline_share, plot::Unit::kFraction),
          Cell(breakable(o.implementation))};
}

Html operations(const RankProfile& rank) {
  if (rank.operations.empty()) return {};
  Table table;
  table.caption = "Operations of rank " + std::to_string(rank.rank) + ", the longest first";
  table.sortable = true;
  table.columns = {{"operation"},      {"layer"},       {"phase"},
                   {"time of a step"}, {"share", true}, {"calls", true},
                   {"GFLOP/s", true},  {"GB/s", true},  {"of the device's limit", true},
                   {"implementation"}};
  const size_t count = std::min(rank.operations.size(), kMostOperations);
  for (size_t i = 0; i < count; ++i)
    table.rows.push_back(
        operation_row(rank.operations[i], rank.operations[0].time_ns, rank.step_ns));
  Html html = element("h4", "Operations") + to_html(table);
  if (count < rank.operations.size())
    html += element("p", "The other " + std::to_string(rank.operations.size() - count) +
                             " operations are left out; profile.json has them.");
  return html;
}

Html live_values(const RankProfile& rank) {
  if (rank.alive_at_peak.empty()) return {};
  Table table;
  table.caption = "In memory at the peak, the largest first";
  table.columns = {{"value"}, {"size"}};
  for (size_t i = 0; i < std::min(rank.alive_at_peak.size(), kMostLive); ++i) {
    const LiveValue& value = rank.alive_at_peak[i];
    table.rows.push_back(
        {Cell(value.name), Cell(bar(to_text(value.bytes, plot::Unit::kBytes),
                                    value.bytes / rank.alive_at_peak[0].bytes, 3))});
  }
  return element("div", element("h4", "In memory at the peak") + to_html(table));
}

Html memory(const RankProfile& rank, const std::string& id) {
  Chart chart;
  chart.id = id;
  chart.title = "Memory over the operations of a step";
  chart.x_title = "operation";
  chart.y_unit = plot::Unit::kBytes;
  chart.over_steps = false;
  chart.from_zero = true;
  chart.stepped = true;
  Line line{.name = "in use", .colour = 3};
  for (const MemoryPoint& p : rank.timeline)
    line.points.push_back({static_cast<double>(line.points.size()), p.bytes});
  const double last = line.points.empty() ? 0 : line.points.back().x;
  chart.lines.push_back(std::move(line));
  if (rank.persistent_bytes > 0)
    chart.lines.push_back({.name = "persistent",
                           .colour = 7,
                           .dashed = true,
                           .points = {{0, rank.persistent_bytes}, {last, rank.persistent_bytes}}});
  if (rank.timeline.empty()) chart.lines.clear();
  const std::string text = "Peak " + to_text(rank.peak_bytes, plot::Unit::kBytes) + ", of which " +
                           to_text(rank.persistent_bytes, plot::Unit::kBytes) + " persistent.";
  const Html parts = draw(chart) + live_values(rank);
  if (parts.empty() && std::isnan(rank.peak_bytes)) return {};
  return element("h4", "Memory") + element("p", text) +
         element("div", parts, {{"class", "charts"}});
}

Html rank_details(const RankProfile& rank, const std::string& id, bool open) {
  std::string title = "Rank " + std::to_string(rank.rank);
  if (!rank.device.empty()) title += " on " + rank.device;
  if (std::isfinite(rank.first_step))
    title += ", steps " + to_text(rank.first_step, plot::Unit::kCount) + " to " +
             to_text(rank.last_step, plot::Unit::kCount);
  std::vector<Attribute> attributes = {{"class", "rank"}};
  if (open) attributes.push_back({"open"});
  return element("details",
                 element("summary", title) + operations(rank) + memory(rank, id + "-memory"),
                 attributes);
}

}  // namespace

Section profile_section(const std::vector<Run>& runs) {
  Section section{"profile", "Profile", {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].profile) continue;
    const Profile& profile = *runs[i].profile;
    if (runs.size() > 1) section.content += element("h3", badge(runs, i));
    section.content += step_bars(profile) + element("h4", "Time of a step") + step_table(profile) +
                       communication_table(profile);
    for (size_t rank = 0; rank < std::min(profile.ranks.size(), kMostRanks); ++rank) {
      const std::string id = "profile-" + std::to_string(i) + "-" + std::to_string(rank);
      section.content += rank_details(profile.ranks[rank], id, rank == 0);
    }
  }
  return section;
}

}  // namespace tools::report
