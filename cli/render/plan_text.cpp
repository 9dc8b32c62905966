#include "cli/render/plan_text.hpp"

#include <fmt/format.h>

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"

namespace prime::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Of lines that nobody's terminal breaks.
constexpr std::size_t WIDTH_OF_A_PIPE = 100;

std::string optional_time(const std::optional<double>& seconds) {
  if (!seconds) return UNKNOWN;
  return *seconds < 59.95 ? short_time_figure(seconds) : elapsed_figure(*seconds);
}

struct Lead {
  std::string first;  ///< before the first line
  std::string rest;   ///< before each other one
};

/// Words in lines of at most so many characters.
std::string wrapped(const std::string& text, std::size_t width, const Lead& lead) {
  std::string lines, line = lead.first;
  bool begun = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(' ', begin), text.size());
    const auto word = text.substr(begin, end - begin);
    if (begun && line.size() + 1 + word.size() > width) {
      lines += line + "\n";
      line = lead.rest + word;
    } else {
      line += (begun ? " " : "") + word;
    }
    begun = true;
    begin = end + 1;
  }
  return lines + line + "\n";
}

std::string heading(const planning::Plan& plan) {
  const bool sharded = plan.shards > 1;
  auto text = harmless(plan.run) + ": " + plural(plan.peers, sharded ? "replica" : "peer");
  if (sharded) text += " of " + plural(plan.shards, "shard");
  return text + ", " + plural(plan.outer_steps, "outer step") + " of " + plural(plan.inner_steps, "inner step") + " and " +
         plural(plan.fragments, "round");
}

std::string needed_links(const planning::Plan& plan, const Style& style) {
  if (plan.links.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [utilization, link] : plan.links) rows.push_back({fmt::format("{:.0f} %", utilization * 100), bit_rate_figure(link)});
  return "\n" + columns({{"UTILIZATION", Align::Right}, {"NEEDED LINK"}}, rows, style);
}

}  // namespace

Json plan_json(const planning::Plan& plan) {
  auto links = Json::array();
  for (const auto& [utilization, link] : plan.links) links.push_back({{"compute_utilization", utilization}, {"link_bits_per_s", link}});
  return {{"schema", "primectl.plan/1"},
          {"run", plan.run},
          {"peers", plan.peers},
          {"shards", plan.shards},
          {"fragments", plan.fragments},
          {"inner_steps", plan.inner_steps},
          {"outer_steps", plan.outer_steps},
          {"parameters", plan.parameters},
          {"trainer_bytes", known(plan.trainer_bytes)},
          {"agent_bytes", plan.agent_bytes},
          {"round_wire_bytes", plan.round_wire_bytes},
          {"outer_step_wire_bytes", plan.outer_step_wire_bytes},
          {"peer_wire_bytes", plan.peer_wire_bytes},
          {"tokens", plan.tokens},
          {"wire_bytes_per_token", static_cast<double>(plan.outer_step_wire_bytes) / static_cast<double>(plan.tokens)},
          {"link_bits_per_s", known(plan.link_bits_per_s)},
          {"step_s", known(plan.step_s)},
          {"tokens_per_s", known(plan.tokens_per_s)},
          {"reduce_s", known(plan.reduce_s)},
          {"outer_step_s", known(plan.outer_step_s)},
          {"peak_bits_per_s", known(plan.peak_bits_per_s)},
          {"mean_bits_per_s", known(plan.mean_bits_per_s)},
          {"compute_utilization", known(plan.compute_utilization)},
          {"goodput", known(plan.goodput)},
          {"links", std::move(links)},
          {"assumptions", plan.assumptions}};
}

std::string plan_text(const planning::Plan& plan, const Style& style) {
  const auto per_token = static_cast<double>(plan.outer_step_wire_bytes) / static_cast<double>(plan.tokens);
  std::vector<std::vector<std::string>> rows{
      {"parameters", rate_figure(static_cast<double>(plan.parameters)), "of the model"},
      {"trainer", bytes_figure(plan.trainer_bytes), "memory of one"},
      {"agent", bytes_figure(plan.agent_bytes), "memory of one"},
      {"wire", bytes_figure(plan.outer_step_wire_bytes), "an outer step; " + bytes_figure(plan.peer_wire_bytes) + " a peer"}};
  if (plan.fragments > 1) rows.push_back({"round", bytes_figure(plan.round_wire_bytes), "the largest round"});
  rows.push_back({"wire/token", fmt::format("{:.3g} B", per_token), "all peers"});
  // Only what is known: what would tell the rest stands below.
  const auto add = [&](const char* name, const auto& value, const std::string& figure, const std::string& note) {
    if (value) rows.push_back({name, figure, note});
  };
  add("tok/s", plan.tokens_per_s, rate_figure(plan.tokens_per_s), "all peers, while they train");
  add("reduce", plan.reduce_s, optional_time(plan.reduce_s), "over " + bit_rate_figure(plan.link_bits_per_s));
  add("outer step", plan.outer_step_s, optional_time(plan.outer_step_s), "training and reduce");
  if (plan.outer_step_s) {
    const auto run_s = *plan.outer_step_s * static_cast<double>(plan.outer_steps);
    rows.push_back({"run", elapsed_figure(run_s), plural(plan.outer_steps, "outer step")});
  }
  add("peak", plan.peak_bits_per_s, bit_rate_figure(plan.peak_bits_per_s), "a peer, while it sends");
  add("mean", plan.mean_bits_per_s, bit_rate_figure(plan.mean_bits_per_s), plan.link_bits_per_s ? "a peer" : "a peer, at most");
  add("utilization", plan.compute_utilization, share_figure(plan.compute_utilization), "of its time a peer trains");
  add("goodput", plan.goodput, share_figure(plan.goodput), "of its time failures leave");
  const auto width = std::min(style.width > 0 ? style.width : WIDTH_OF_A_PIPE, WIDTH_OF_A_PIPE);
  auto text = wrapped(heading(plan), width, {"", "  "}) + columns({{"FIGURE"}, {"VALUE", Align::Right}, {"OF"}}, rows, style) +
              needed_links(plan, style) + "\nAssumed:\n";
  for (const auto& assumption : plan.assumptions) text += wrapped(assumption, width, {"- ", "  "});
  return text;
}

std::vector<std::string> what_is_missing(const planning::Plan& plan) {
  std::vector<std::string> lines;
  const auto step_tokens = plan.tokens / plan.peers / plan.inner_steps;
  if (!plan.step_s)
    lines.push_back("--step-time, for utilization and the needed link: " + std::to_string(step_tokens) +
                    " tokens / TOK/S of a peer in the `status` of a short run");
  if (!plan.link_bits_per_s) lines.emplace_back("--link, for reduce, peak and utilization: what a peer can send, as 100Mbit/s");
  if (!plan.goodput) lines.emplace_back("--mtbf, for goodput: how often one of these machines fails");
  return lines;
}

}  // namespace prime::cli
