#include "cli/render/eval_text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace prime::cli {
namespace {

nlohmann::ordered_json density_json(const assay::Density& density) {
  return {{"bits_per_base", density.bits_per_base},
          {"nats_per_token", density.nats_per_token},
          {"nats_per_token_deviation", density.nats_deviation},
          {"reads", density.reads},
          {"bases", density.bases},
          {"tokens", density.tokens},
          {"histogram", {{"step_bits_per_base", assay::HISTOGRAM_STEP}, {"reads", density.histogram}}}};
}

nlohmann::ordered_json foreign_json(const assay::Foreign& foreign) {
  return {{"f1", foreign.f1}, {"threshold_bits_per_base", foreign.threshold}};
}

std::string density_line(const char* what, const assay::Density& density) {
  return fmt::format("  {:<10} {:.4f} bits per base, {:.3f} ± {:.3f} nats per token, {} reads\n", what, density.bits_per_base,
                     density.nats_per_token, density.nats_deviation, density.reads);
}

}  // namespace

const assay::OrderBits& Evaluated::best_order() const {
  return *std::ranges::min_element(report.markov, {}, &assay::OrderBits::bits_per_base);
}

nlohmann::ordered_json eval_json(const Evaluated& evaluated) {
  const auto& report = evaluated.report;
  auto orders = nlohmann::ordered_json::array();
  for (const auto& order : report.markov)
    orders.push_back({{"order", order.order}, {"bits_per_base", order.bits_per_base}, {"weight", order.weight}});
  nlohmann::ordered_json classes;
  if (report.classes)
    classes = {{"positive", evaluated.positive},           {"positive_share", report.classes->positive_share},
               {"learned_reads", report.classes->learned}, {"judged_reads", report.classes->judged},
               {"mcc_model", report.classes->model},       {"mcc_4mers", report.classes->kmers},
               {"mcc_both", report.classes->both}};
  return {
      {"schema", "primectl.eval/1"},
      {"model", evaluated.model},
      {"run", evaluated.manifest},
      {"held_out", density_json(report.held_out)},
      {"trained", density_json(report.trained)},
      {"random", density_json(report.random)},
      {"markov",
       {{"learned_reads", evaluated.learned_reads},
        {"learned_bases", evaluated.learned_bases},
        {"orders", orders},
        {"best_order", evaluated.best_order().order},
        {"best_bits_per_base", evaluated.best_order().bits_per_base}}},
      {"below_best_order_bits_per_base", evaluated.best_order().bits_per_base - report.held_out.bits_per_base},
      {"foreign", {{"held_out", foreign_json(report.held_out_against_random)}, {"trained", foreign_json(report.trained_against_random)}}},
      {"classes", classes},
      {"seconds", evaluated.seconds}};
}

std::string eval_text(const Evaluated& evaluated) {
  const auto& report = evaluated.report;
  std::string text = evaluated.model + "\n" + density_line("held out", report.held_out) + density_line("trained on", report.trained) +
                     density_line("random", report.random) + "tables of k-mers, on the held-out reads\n";
  for (const auto& order : report.markov) text += fmt::format("  order {:<4} {:.4f} bits per base\n", order.order, order.bits_per_base);
  const double below = evaluated.best_order().bits_per_base - report.held_out.bits_per_base;
  text += fmt::format("  the model is {:.4f} bits per base {} the best of them\n", std::abs(below), below >= 0 ? "below" : "above");
  text += fmt::format("random reads told from known ones by their loss: F1 {:.3f} (held out), {:.3f} (trained on)\n",
                      report.held_out_against_random.f1, report.trained_against_random.f1);
  if (report.classes)
    text += fmt::format("{} told from the others, Matthews' coefficient: model {:.3f}, 4-mers {:.3f}, both {:.3f}\n",
                        fmt::join(evaluated.positive, ", "), report.classes->model, report.classes->kmers, report.classes->both);
  return text;
}

}  // namespace prime::cli
