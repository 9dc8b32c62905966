// Owns the training data of one peer: which files there are, which are held out, and which bytes a sample is.
//
// Files, not bytes, are held out, chosen by the hash of their path, so that every peer with the same tree holds out the same ones
// and no training sample ever shares a file with the evaluation. Where that chooses no file, or the greater part of the data (there is
// one file, or a few), the end of each file is held out instead: no byte that is predicted there is predicted in training. A sample is a
// window of context + 1 bytes inside one file; windows of a file lie `context` bytes apart, so each byte but the first is predicted exactly
// once. Only the index is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "messages/data_identity.hpp"
#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/file_walk.hpp"

namespace prime::trainer {

/// More files than this are refused: the index would not be small any more.
inline constexpr std::size_t MAX_CORPUS_FILES = 1'000'000;

class Corpus {
 public:
  /// Indexes `path` (a directory, read recursively, or one file). `context` is in bytes, `batch` in samples.
  /// DataUnreadable when the path or all of its matching files cannot be read as text; DataTooSmall for less than one batch.
  static Result<Corpus> open(const manifest::Data& data, const std::string& path, std::uint32_t context, std::uint32_t batch);

  /// Bytes of one window: context + 1.
  [[nodiscard]] std::size_t window_bytes() const { return context_ + 1; }
  /// Training windows in one pass over the data.
  [[nodiscard]] std::uint64_t windows() const { return training_.windows(); }
  [[nodiscard]] std::uint64_t held_out_windows() const { return held_out_.windows(); }
  /// Whether the end of each file is held out, and not whole files.
  [[nodiscard]] bool holds_out_ends() const { return holds_out_ends_; }
  /// Of names, sizes and beginnings of all files that are used, which is what the numbers of samples depend on (of a single file its
  /// name is not). In words: what was found, used and passed over, and what a run of `shared` makes of it.
  [[nodiscard]] DataIdentity identity(const manifest::Shared& shared) const;

  /// From now on a file that is away or cannot be read just now (a file server that hiccups, a folder that was moved) is tried again for
  /// `limit`, and `waits` hears each second for which file and why, and an empty text when it is there again; an error of it ends the wait.
  /// A file that is shorter than it was is wrong, and no wait.
  void be_patient(Duration limit, std::function<Result<void>(const std::string&)> waits);

  /// Samples first, first + 1, … of the run's global order, one after the other, as many as fit `into` (a multiple of window_bytes()).
  /// The order repeats after every pass over the windows, each pass in its own permutation.
  Result<void> read(std::uint64_t first, std::span<std::uint8_t> into) const;
  /// Held-out windows in the order of evaluation.
  Result<void> read_held_out(std::uint64_t first, std::span<std::uint8_t> into) const;
  /// How a text begins that is held out (or, where none is, one that is trained on): a few words, which a model can be asked to go on
  /// with. Empty where the data cannot be read.
  [[nodiscard]] std::string beginning() const;

 private:
  /// Files with the windows before each of them: a window is found by bisection.
  struct Index {
    std::vector<std::string> files;     // relative to root_
    std::vector<std::uint64_t> firsts;  // the window of each file that is its first here
    std::vector<std::uint64_t> ends;    // windows up to and including each file
    [[nodiscard]] std::uint64_t windows() const { return ends.empty() ? 0 : ends.back(); }
    void add(const std::string& file, std::uint64_t first, std::uint64_t count);
  };
  struct Candidate;

  Corpus(std::string root, std::size_t context, std::uint64_t seed) : root_(std::move(root)), context_(context), seed_(seed) {}
  [[nodiscard]] std::uint64_t windows_of(std::uint64_t size_bytes) const;
  void note_found(const FoundFiles& found, const manifest::Data& data, const std::string& path);
  [[nodiscard]] std::uint64_t held_out_limit(const manifest::Data& data) const;
  void hold_out_files(std::vector<Candidate> files, const manifest::Data& data);
  void hold_out_ends(const std::vector<Candidate>& files, const manifest::Data& data);
  Result<void> read_patiently(const std::string& path, std::uint64_t offset, std::span<std::uint8_t> into) const;
  Result<void> read_window(const Index& index, std::uint64_t window, std::span<std::uint8_t> into) const;

  std::string root_;  // a directory with its final slash, or empty before a single file's path
  std::size_t context_;
  std::uint64_t seed_;
  bool holds_out_ends_ = false;
  std::uint64_t used_files_ = 0;  ///< of one window at least
  Digest digest_;
  std::string listing_;
  std::string found_;  ///< in words
  Duration patience_{};
  std::function<Result<void>(const std::string&)> waits_;
  Index training_;
  Index held_out_;
};

}  // namespace prime::trainer
