// Owns the split into training and held-out windows, and reading them.
#include "runtime/trainer/corpus.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <openssl/sha.h>
#include <optional>
#include <thread>
#include <tuple>
#include <unistd.h>

#include "kernels/digest/digest.hpp"
#include "messages/assert.hpp"
#include "messages/data_listing.hpp"
#include "runtime/clock.hpp"
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

struct Unread {
  int cause = 0;  ///< an errno; 0: the file is too short
};

/// Reads exactly `into` or says why not. The file is opened for each window: no limit on open files binds the corpus' size.
std::optional<Unread> read_exactly(const std::string& path, std::uint64_t offset, std::span<std::uint8_t> into) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Unread{errno};
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
  if (done == into.size()) return std::nullopt;
  return Unread{cause};
}

std::string why_unread(const std::string& path, const Unread& unread) {
  return path + ": " + (unread.cause != 0 ? std::strerror(unread.cause) : "shorter than when the run began");
}

/// What a file server, a mount or a machine that is short of something gives back by itself, or somebody who moved a folder does.
bool may_pass(const Unread& unread) {
  constexpr std::array PASSING{EIO,          ESTALE,    ENOENT, ENOTDIR, ETIMEDOUT, ENOTCONN, EHOSTDOWN,
                               EHOSTUNREACH, EREMOTEIO, EACCES, EAGAIN,  EMFILE,    ENFILE,   ENOMEM};
  return std::ranges::find(PASSING, unread.cause) != PASSING.end();
}

constexpr Duration LOOK_AGAIN_EVERY = 1s;

std::string counted(std::uint64_t count, const std::string& what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); }

/// Three digits, as people count: "0.4", "12", "1650".
std::string figure(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2g" : "%.0f", value);
  return text.data();
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < KIB) return counted(bytes, "byte");
  const bool small = bytes < MIB;
  return figure(static_cast<double>(bytes) / static_cast<double>(small         ? KIB
                                                                 : bytes < GIB ? MIB
                                                                               : GIB)) +
         (small         ? " KiB"
          : bytes < GIB ? " MiB"
                        : " GiB");
}

}  // namespace

struct Corpus::Candidate {
  std::uint64_t hash = 0;
  std::string path;
  std::uint64_t windows = 0;
  bool held_out = false;
};

void Corpus::Index::add(const std::string& file, std::uint64_t first, std::uint64_t count) {
  if (count == 0) return;
  ends.push_back(windows() + count);
  firsts.push_back(first);
  files.push_back(file);
}

std::uint64_t Corpus::windows_of(std::uint64_t size_bytes) const { return size_bytes < 1 ? 0 : (size_bytes - 1) / context_; }

Result<Corpus> Corpus::open(const manifest::Data& data, const std::string& path, std::uint32_t context, std::uint32_t batch) {
  PRIME_TRY(auto found, find_files(path, data.include, MAX_CORPUS_FILES));
  Corpus corpus(found.root, context, data.seed);
  corpus.note_found(found, data, path);
  std::vector<Candidate> files;
  std::uint64_t all = 0;
  std::uint64_t chosen = 0;
  for (auto& file : found.files) {
    const std::uint64_t hash = hash_of(file.path);
    const bool held_out = static_cast<double>(hash) * 0x1p-64 < data.held_out_percent / 100.0;
    const auto windows = corpus.windows_of(std::min(file.size_bytes, data.per_file_bytes));
    all += windows;
    chosen += held_out ? windows : 0;
    files.push_back({hash, std::move(file.path), windows, held_out});
  }
  corpus.holds_out_ends_ = data.held_out_percent > 0 && (chosen == 0 || chosen > all / 2);
  if (corpus.holds_out_ends_) corpus.hold_out_ends(files, data);
  else corpus.hold_out_files(std::move(files), data);
  if (corpus.windows() < batch) {
    return fail(ErrorName::DataTooSmall, corpus.found_ + ", " + std::to_string(corpus.windows()) + " samples of " +
                                             std::to_string(context + 1) + " bytes (`model.context` and one); one batch needs " +
                                             std::to_string(batch));
  }
  return corpus;
}

/// What was found, in words, and what of it must be the same on every peer.
void Corpus::note_found(const FoundFiles& found, const manifest::Data& data, const std::string& path) {
  std::string bytes;
  std::vector<ListedFile> listed;
  std::uint64_t size_bytes = 0;
  std::uint64_t used_bytes = 0;
  for (const auto& file : found.files) {
    // A single file is the same by whatever name.
    if (found.files.size() > 1) bytes += file.path;
    const auto content = '\0' + std::to_string(file.size_bytes) + to_string(file.head);
    bytes += content;
    const auto whole = file.path + content;
    listed.push_back({file.path, file.size_bytes, kernels::digest_bytes(std::as_bytes(std::span{whole})).low});
    size_bytes += file.size_bytes;
    used_bytes += std::min(file.size_bytes, data.per_file_bytes);
    used_files_ += windows_of(std::min(file.size_bytes, data.per_file_bytes)) > 0 ? 1 : 0;
  }
  digest_ = kernels::digest_bytes(std::as_bytes(std::span{bytes}));
  listing_ = listing_of(listed);
  const auto files = found.files.size() + found.skipped_files();
  const auto too_short = found.files.size() - used_files_;
  found_ = counted(files, "file") + " in " + path + (files + found.other_names > 1 ? ", matching " + data.include : "") + ": " +
           std::to_string(used_files_) + " used";
  std::string rest;
  const auto passed_over = [&](std::uint64_t count, const std::string& why) {
    if (count > 0) rest += (rest.empty() ? " (passed over: " : ", ") + std::to_string(count) + " " + why;
  };
  for (const auto& [why, some] : found.skipped) passed_over(some.count, why + " as " + some.first.substr(0, 80));
  for (const auto& [why, some] : found.skipped_folders)
    passed_over(some.count, (some.count == 1 ? "folder " : "folders ") + why + " as " + some.first.substr(0, 80));
  passed_over(too_short, "too short for a sample");
  passed_over(found.other_names, found.other_names == 1 ? "of another name" : "of other names");
  found_ += rest.empty() ? "" : rest + ")";
  found_ += ", " + size_text(used_bytes) + (used_bytes < size_bytes ? " of " + size_text(size_bytes) + " (`data.per_file`)" : "");
}

void Corpus::hold_out_files(std::vector<Candidate> files, const manifest::Data& data) {
  for (const auto& file : files)
    if (!file.held_out) training_.add(file.path, 0, file.windows);
  std::erase_if(files, [](const Candidate& file) { return !file.held_out; });
  std::ranges::sort(files, {}, [](const Candidate& file) { return std::tie(file.hash, file.path); });
  std::uint64_t left = held_out_limit(data);
  for (const auto& file : files) {
    const std::uint64_t count = std::min({left, file.windows, windows_of(data.held_out_per_file_bytes)});
    held_out_.add(file.path, 0, count);
    left -= count;
  }
}

/// What the limits leave out is trained on.
void Corpus::hold_out_ends(const std::vector<Candidate>& files, const manifest::Data& data) {
  std::uint64_t left = held_out_limit(data);
  for (const auto& file : files) {
    const auto share = static_cast<std::uint64_t>(std::ceil(static_cast<double>(file.windows) * data.held_out_percent / 100.0));
    const auto count = file.windows < 2 ? 0 : std::min({left, share, file.windows - 1, windows_of(data.held_out_per_file_bytes)});
    training_.add(file.path, 0, file.windows - count);
    held_out_.add(file.path, file.windows - count, count);
    left -= count;
  }
}

/// In windows. A limit below one would make an evaluation of nothing, hence at least one.
std::uint64_t Corpus::held_out_limit(const manifest::Data& data) const {
  return std::max<std::uint64_t>(1, data.held_out_limit_bytes / context_);
}

DataIdentity Corpus::identity(const manifest::Shared& shared) const {
  const double of_one_peer = static_cast<double>(shared.train.outer_steps) * shared.sync.inner_steps * shared.train.batch;
  const auto passes = [&](std::uint32_t peers) { return figure(of_one_peer * peers / static_cast<double>(windows())); };
  const auto [fewest, most] = shared.membership.peers;
  auto text = found_ + "; " + counted(windows(), "sample") + " of " + std::to_string(window_bytes()) + " bytes, ";
  if (held_out_windows() == 0) text += shared.data.held_out_percent > 0 ? "too few to hold any out" : "none held out (`data.held_out`)";
  else
    text += std::to_string(held_out_windows()) +
            (holds_out_ends_ ? " more held out, the end of each file" : " more held out, in files of their own");
  text += "; in " + counted(shared.train.outer_steps, "outer step") + " " + counted(fewest, "peer") + (fewest == 1 ? " reads" : " read") +
          " each sample " + passes(fewest) + " times on average";
  if (most > fewest) text += ", and " + std::to_string(most) + " peers " + passes(most) + " times";
  return {digest_, std::move(text), listing_};
}

Result<void> Corpus::read_window(const Index& index, std::uint64_t window, std::span<std::uint8_t> into) const {
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(index.ends, window) - index.ends.begin());
  const std::uint64_t before = file == 0 ? 0 : index.ends[file - 1];
  return read_patiently(root_ + index.files[file], (index.firsts[file] + window - before) * context_, into);
}

void Corpus::be_patient(Duration limit, std::function<Result<void>(const std::string&)> waits) {
  patience_ = limit;
  waits_ = std::move(waits);
}

Result<void> Corpus::read_patiently(const std::string& path, std::uint64_t offset, std::span<std::uint8_t> into) const {
  auto unread = read_exactly(path, offset, into);
  if (!unread) return {};
  const bool waits = waits_ && may_pass(*unread);
  for (const auto until = monotonic_now() + patience_; waits && unread && may_pass(*unread) && monotonic_now() < until;
       unread = read_exactly(path, offset, into)) {
    PRIME_CHECK(waits_(why_unread(path, *unread)));
    std::this_thread::sleep_for(LOOK_AGAIN_EVERY);
  }
  if (waits && !unread) return waits_({});
  if (!unread) return {};
  const bool in_vain = waits && may_pass(*unread);
  return fail(
      ErrorName::DataUnreadable,
      why_unread(path, *unread) + (in_vain ? ", for " + format_duration(patience_) + " (`local.trainer.stall_limit`)" : std::string{}));
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

std::string Corpus::beginning() const {
  constexpr std::size_t LONGEST = 24;
  std::vector<std::uint8_t> window(window_bytes());
  if (const auto done = held_out_.windows() > 0 ? read_held_out(0, window) : read(0, window); !done) return {};
  std::string text{window.begin(), window.end()};
  constexpr const char* SPACE = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(SPACE), text.size()));
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  // Whole words, where there are several.
  if (text.size() > LONGEST) text.resize(std::min(LONGEST, text.find_last_of(SPACE, LONGEST)));
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80U) != 0) text.pop_back();  // no half character
  return text;
}

Result<void> Corpus::read_held_out(std::uint64_t first, std::span<std::uint8_t> into) const {
  PRIME_ASSERT(into.size() % window_bytes() == 0 && first + into.size() / window_bytes() <= held_out_windows(), "held-out windows exist");
  for (std::uint64_t i = 0; i < into.size() / window_bytes(); ++i) {
    PRIME_CHECK(read_window(held_out_, first + i, into.subspan(i * window_bytes(), window_bytes())));
  }
  return {};
}

}  // namespace prime::trainer
