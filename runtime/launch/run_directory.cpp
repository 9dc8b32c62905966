#include "runtime/launch/run_directory.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/random.h>
#include <unistd.h>

#include "messages/units.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::launch {
namespace fs = std::filesystem;
namespace {

constexpr const char* MANIFEST_FILE = "manifest.yaml";

}  // namespace

std::string make_run_id(const std::string& name) {
  constexpr std::string_view ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";
  std::array<std::uint8_t, 6> bytes{};
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
  }
  auto id = name + "-";
  for (const auto byte : bytes) id += ALPHABET[byte % ALPHABET.size()];
  return id;
}

Result<void> make_run_directory(const fs::path& directory, const manifest::Manifest& manifest) {
  std::error_code error;
  fs::create_directories(directory / "coordinator", error);
  if (!error) fs::create_directories(directory / "peers", error);
  if (!error) fs::permissions(directory, fs::perms::owner_all, error);
  if (error) return fail(store::storage_error("create", directory, error.value()));
  return store::write_file_atomically(directory / MANIFEST_FILE, manifest::shared_yaml(manifest));
}

Result<manifest::Shared> read_manifest(const fs::path& run_directory) {
  PRIME_TRY(const auto text, store::read_file(run_directory / MANIFEST_FILE, manifest::MAX_MANIFEST_BYTES));
  return manifest::parse_shared(text);
}

Result<void> write_invite(const fs::path& run_directory, const std::string& invite) {
  const auto path = run_directory / "invite";
  const auto hidden = run_directory / ".invite.writing";
  ::unlink(hidden.c_str());
  const store::Descriptor file{::open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file.open()) return fail(store::storage_error("create", hidden, errno));
  const auto text = invite + "\n";
  auto written = store::write_all(file.get(), std::as_bytes(std::span{text}), hidden);
  if (written && (::fsync(file.get()) != 0 || std::rename(hidden.c_str(), path.c_str()) != 0))
    written = fail(store::storage_error("write", path, errno));
  if (!written) ::unlink(hidden.c_str());
  return written;
}

Result<std::string> read_invite(const fs::path& run_directory) {
  PRIME_TRY(auto text, store::read_file(run_directory / "invite", 4 * KIB));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace prime::launch
