// Owns the reads that an assay looks at: what a source gives once it is cleaned, and a part of it, drawn evenly.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "runtime/trainer/data/source.hpp"

namespace prime::assay {

struct NamedRead {
  std::string source;  ///< what its name says behind `source=`, as `primectl data reads` writes it; empty: nothing
  std::string bases;
};

/// Keeps so many of all that it is shown, each with the same chance, the same ones each time.
class Sample {
 public:
  explicit Sample(std::size_t size) : size_(size) {}
  void show(std::string_view name, std::string_view bases);
  [[nodiscard]] std::vector<NamedRead> take() && { return std::move(kept_); }
  [[nodiscard]] std::uint64_t shown() const { return shown_; }

 private:
  std::size_t size_;
  std::uint64_t shown_ = 0;
  std::vector<NamedRead> kept_;
};

/// Every read of a source, cleaned as it is for training, but for pairs, which stay two reads. DataUnreadable where it holds no reads.
Result<void> each_read(const data::Source& source, const std::string& include,
                       const std::function<Result<void>(std::string_view name, std::string_view bases)>& hear);

/// As long as each of these, of bases drawn evenly.
std::vector<NamedRead> random_like(const std::vector<NamedRead>& reads);

}  // namespace prime::assay
