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
/// Always so many bytes, written at once: whoever reads sees one notice, never halves of two.
constexpr std::size_t NOTICE_BYTES = 2048;
constexpr std::size_t TEXT_BYTES_MAX = 1600;

json to_json(Instant instant) { return instant.time_since_epoch().count(); }
Instant instant_of(const json& object, const char* key) { return Instant{Duration{object.value(key, Duration::rep{})}}; }

}  // namespace

NoticeBoard::NoticeBoard() : file_(::memfd_create(NAME, MFD_CLOEXEC)) {}

void NoticeBoard::show(const Notice& notice) {
  if (!file_.open() || notice == shown_) return;
  shown_ = notice;
  auto text = json{{"obstacle", notice.obstacle.substr(0, TEXT_BYTES_MAX)},
                   {"unwritten", notice.unwritten.substr(0, TEXT_BYTES_MAX - std::min(TEXT_BYTES_MAX, notice.obstacle.size()))},
                   {"since", to_json(notice.since)},
                   {"until", to_json(notice.until)}}
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
      return Notice{object.value("obstacle", std::string{}), object.value("unwritten", std::string{}), instant_of(object, "since"),
                    instant_of(object, "until")};
    } catch (const json::exception&) {  // a value of another type
    }
  }
  return std::nullopt;
}

}  // namespace prime::telemetry
