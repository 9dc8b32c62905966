// Owns the split into training and held-out windows, and reading them.
#include "runtime/trainer/corpus.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <openssl/sha.h>
#include <optional>
#include <tuple>
#include <unistd.h>

#include "messages/assert.hpp"
#include "runtime/trainer/file_walk.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::trainer {
namespace {

/// The first eight bytes of SHA-256 as a number: what any other program can compute, so that a held-out set can be checked.
std::uint64_t hash_of(const std::string& path) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(path.data()), path.size(), digest.data());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = (value << 8) | digest[i];
  return value;
}

/// Reads exactly `into` or says why not. The file is opened for each window: no limit on open files binds the corpus' size.
Result<void> read_exactly(const std::string& path, std::uint64_t offset, std::span<std::uint8_t> into) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(ErrorName::DataUnreadable, path + ": " + std::strerror(errno));
  std::size_t done = 0;
  int cause = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(file, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cause = errno;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  ::close(file);
  if (done == into.size()) return {};
  return fail(ErrorName::DataUnreadable, path + ": " + (cause != 0 ? std::strerror(cause) : "shorter than when the run began"));
}

}  // namespace

struct Corpus::Candidate {
  std::uint64_t hash = 0;
  std::string path;
  std::uint64_t size_bytes = 0;
};

void Corpus::Index::add(std::string file, std::uint64_t count) {
  if (count == 0) return;
  ends.push_back(windows() + count);
  files.push_back(std::move(file));
}

std::uint64_t Corpus::windows_of(std::uint64_t size_bytes) const { return size_bytes < 1 ? 0 : (size_bytes - 1) / context_; }

Result<Corpus> Corpus::open(const manifest::Data& data, const std::string& path, std::uint32_t context, std::uint32_t batch) {
  PRIME_TRY(auto found, find_files(path, data.include, MAX_CORPUS_FILES));
  Corpus corpus(std::move(found.root), context, data.seed);
  corpus.unreadable_ = found.unreadable;
  std::vector<Candidate> held_out;
  const double share = data.held_out_percent / 100.0;
  for (auto& file : found.files) {
    const std::uint64_t hash = hash_of(file.path);
    const std::uint64_t size_bytes = std::min(file.size_bytes, data.per_file_bytes);
    if (static_cast<double>(hash) * 0x1p-64 < share) {
      held_out.push_back({hash, std::move(file.path), size_bytes});
    } else {
      corpus.training_.add(std::move(file.path), corpus.windows_of(size_bytes));
    }
  }
  corpus.index(std::move(held_out), data);
  if (corpus.windows() < batch) {
    return fail(ErrorName::DataTooSmall, path + ": " + std::to_string(corpus.windows()) + " samples of " + std::to_string(context + 1) +
                                             " bytes in files that match " + data.include + "; one batch needs " + std::to_string(batch));
  }
  return corpus;
}

void Corpus::index(std::vector<Candidate> candidates, const manifest::Data& data) {
  std::ranges::sort(candidates, {}, [](const Candidate& file) { return std::tie(file.hash, file.path); });
  // A limit below one window would make an evaluation of nothing, hence at least one.
  std::uint64_t left = std::max<std::uint64_t>(1, data.held_out_limit_bytes / context_);
  for (auto& file : candidates) {
    const std::uint64_t count = std::min(left, windows_of(std::min(file.size_bytes, data.held_out_per_file_bytes)));
    held_out_.add(std::move(file.path), count);
    left -= count;
  }
}

Result<void> Corpus::read_window(const Index& index, std::uint64_t window, std::span<std::uint8_t> into) const {
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(index.ends, window) - index.ends.begin());
  const std::uint64_t before = file == 0 ? 0 : index.ends[file - 1];
  return read_exactly(root_ + index.files[file], (window - before) * context_, into);
}

Result<void> Corpus::read(std::uint64_t first, std::span<std::uint8_t> into) const {
  PRIME_ASSERT(into.size() % window_bytes() == 0, "whole windows are read");
  std::optional<Permutation> order;
  std::uint64_t order_pass = 0;
  for (std::uint64_t i = 0; i < into.size() / window_bytes(); ++i) {
    const std::uint64_t pass = (first + i) / windows();
    if (!order || pass != order_pass) order.emplace(windows(), seed_, pass);
    order_pass = pass;
    PRIME_CHECK(read_window(training_, (*order)((first + i) % windows()), into.subspan(i * window_bytes(), window_bytes())));
  }
  return {};
}

Result<void> Corpus::read_held_out(std::uint64_t first, std::span<std::uint8_t> into) const {
  PRIME_ASSERT(into.size() % window_bytes() == 0 && first + into.size() / window_bytes() <= held_out_windows(), "held-out windows exist");
  for (std::uint64_t i = 0; i < into.size() / window_bytes(); ++i) {
    PRIME_CHECK(read_window(held_out_, first + i, into.subspan(i * window_bytes(), window_bytes())));
  }
  return {};
}

}  // namespace prime::trainer
