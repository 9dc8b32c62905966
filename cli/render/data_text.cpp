#include "cli/render/data_text.hpp"

#include <fmt/format.h>

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"
#include "cli/render/style.hpp"
#include "runtime/trainer/data/corpus_words.hpp"

namespace prime::cli {
namespace {

double bytes_of_token(const data::CompiledSource& source) {
  return source.tokens == 0 ? 0 : static_cast<double>(source.counts.bytes) / static_cast<double>(source.tokens);
}

/// Stretches of a sample that end with the token that ends a document; the last one may go on.
struct Stretch {
  std::size_t begin = 0, end = 0;
};
std::vector<Stretch> documents_in(const InspectedSample& sample) {
  std::vector<Stretch> found{{}};
  const auto last = sample.corpus.tokenizer().end_of_document();
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    found.back().end = i + 1;
    if (last && sample.tokens[i] == *last && i + 1 < sample.tokens.size()) found.push_back({i + 1, i + 1});
  }
  return found;
}

std::span<const data::Token> part(const InspectedSample& sample, const Stretch& stretch) {
  return std::span(sample.tokens).subspan(stretch.begin, stretch.end - stretch.begin);
}

}  // namespace

std::string shares_text(const std::vector<data::MixShare>& shares) {
  std::string text;
  for (std::size_t i = 0; i < shares.size(); ++i)
    text += (i == 0                   ? ""
             : i + 1 == shares.size() ? fmt::format(", from sample {} on ", shares[i].at)
                                      : fmt::format(", at sample {} ", shares[i].at)) +
            share_figure(shares[i].share);
  return text + " of the samples";
}

nlohmann::ordered_json data_json(const CompiledData& data) {
  auto sources = nlohmann::ordered_json::array();
  for (const auto& source : data.corpus.sources()) {
    const auto& c = source.counts;
    auto shares = nlohmann::ordered_json::array();
    for (const auto& [at, share] : source.shares) shares.push_back({{"at", at}, {"share", share}});
    sources.push_back(
        {{"path", source.files.place},
         {"files", source.files.files.size()},
         {"documents", c.documents},
         {"bytes", c.bytes},
         {"tokens", source.tokens},
         {"skipped", c.skipped},
         {"first_skipped", source.first_skipped.empty() ? nlohmann::ordered_json{} : nlohmann::ordered_json(source.first_skipped)},
         {"trimmed_quality", c.trimmed_quality},
         {"trimmed_adapter", c.trimmed_adapter},
         {"dropped_n", c.dropped_n},
         {"dropped_length", c.dropped_length},
         {"dropped_duplicate", c.dropped_duplicate},
         {"collapsed", c.collapsed},
         {"shares", std::move(shares)}});
  }
  return {{"schema", "primectl.data/1"},
          {"run", data.run},
          {"sources", std::move(sources)},
          {"samples", data.corpus.windows()},
          {"held_out_samples", data.corpus.held_out_windows()},
          {"sample_tokens", data.corpus.window_tokens()},
          {"digest", to_string(data.corpus.digest())},
          {"cache", data.cache}};
}

std::string data_text(const CompiledData& data) {
  std::string text;
  for (const auto& source : data.corpus.sources()) {
    const auto& c = source.counts;
    text += fmt::format("{}: {}, {}, {}, {} ({:.2f} bytes each)\n", source.files.place, plural(source.files.files.size(), "file"),
                        plural(c.documents, "document"), bytes_figure(c.bytes), plural(source.tokens, "token"), bytes_of_token(source));
    const auto line = [&](std::uint64_t count, const char* what) {
      if (count > 0) text += fmt::format("  {} {}\n", count, what);
    };
    if (!source.shares.empty()) text += "  " + shares_text(source.shares) + "\n";
    line(c.skipped, ("broken and passed over; the first: " + source.first_skipped).c_str());
    line(c.trimmed_quality, "reads cut for their quality");
    line(c.trimmed_adapter, "reads cut at an adapter");
    line(c.collapsed, "pairs made one read");
    line(c.dropped_n, "left out: too many N");
    line(c.dropped_length, "left out: too short or too long");
    line(c.dropped_duplicate, "left out: there already");
    for (const auto& [why, some] : source.files.passed_over.skipped)
      text += fmt::format("  {} passed over: {} ({})\n", plural(some.count, "file"), why, some.first);
  }
  return harmless_page(text + fmt::format("{} of {} tokens, {} held out; digest {}\ncompiled in {}\n",
                                          plural(data.corpus.windows(), "sample"), data.corpus.window_tokens(),
                                          data.corpus.held_out_windows(), to_string(data.corpus.digest()).substr(0, 8), data.cache));
}

nlohmann::ordered_json sample_json(const InspectedSample& sample) {
  auto documents = nlohmann::ordered_json::array();
  for (const auto& stretch : documents_in(sample))
    documents.push_back({{"first", stretch.begin},
                         {"tokens", stretch.end - stretch.begin},
                         {"text", sample.corpus.tokenizer().decode(part(sample, stretch))}});
  return {{"schema", "primectl.data.inspect/1"}, {"sample", sample.number}, {"ids", sample.tokens}, {"documents", std::move(documents)}};
}

std::string sample_text(const InspectedSample& sample) {
  std::string text = fmt::format("sample {} of {}, {} tokens\n", sample.number, sample.corpus.windows(), sample.tokens.size());
  for (const auto& stretch : documents_in(sample)) {
    std::string ids;
    for (const auto token : part(sample, stretch)) ids += (ids.empty() ? "" : " ") + std::to_string(token);
    text += fmt::format("--- tokens {} to {}\n{}\n{}\n", stretch.begin, stretch.end - 1, ids,
                        sample.corpus.tokenizer().decode(part(sample, stretch)));
  }
  return harmless_page(text);
}

}  // namespace prime::cli
