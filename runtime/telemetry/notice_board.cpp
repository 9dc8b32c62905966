#include "runtime/telemetry/notice_board.hpp"

#include <array>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <sys/mman.h>
#include <unistd.h>

namespace prime::telemetry {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr const char* NAME = "prime-notice";
/// As /proc names it.
constexpr std::string_view LINK_BEGINS = "/memfd:prime-notice";
/// Always so many bytes, one page, written at once: whoever reads sees one notice, never halves of two. In JSON a byte is six at most.
constexpr std::size_t NOTICE_BYTES = 4096;
constexpr std::size_t TEXT_BYTES_MAX = 600;
constexpr std::size_t TIME_BYTES_MAX = 32;

}  // namespace

NoticeBoard::NoticeBoard() : file_(::memfd_create(NAME, MFD_CLOEXEC)) {}

void NoticeBoard::show(const Notice& notice) {
  if (!file_.open() || notice == shown_) return;
  shown_ = notice;
  auto text = json{{"obstacle", notice.obstacle.substr(0, TEXT_BYTES_MAX)},
                   {"unwritten", notice.unwritten.substr(0, TEXT_BYTES_MAX - std::min(TEXT_BYTES_MAX, notice.obstacle.size()))},
                   {"since", notice.since.substr(0, TIME_BYTES_MAX)},
                   {"until", notice.until.substr(0, TIME_BYTES_MAX)}}
                  .dump(-1, ' ', true, json::error_handler_t::replace);
  text.resize(NOTICE_BYTES, ' ');
  (void)!::pwrite(file_.get(), text.data(), text.size(), 0);
}

std::optional<Notice> read_notice(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator entry{"/proc/" + std::to_string(pid) + "/fd", error}, end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    if (!fs::read_symlink(entry->path(), gone).string().starts_with(LINK_BEGINS) || gone) continue;
    const store::Descriptor file{::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC)};
    std::array<char, NOTICE_BYTES> text{};
    if (!file.open() || ::pread(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) continue;
    const auto object = json::parse(text.begin(), text.end(), nullptr, false);
    if (!object.is_object()) continue;
    try {
      const auto text_at = [&](const char* key) { return object.value(key, std::string{}); };
      return Notice{text_at("obstacle"), text_at("unwritten"), text_at("since"), text_at("until")};
    } catch (const json::exception&) {  // a value of another type
    }
  }
  return std::nullopt;
}

}  // namespace prime::telemetry
