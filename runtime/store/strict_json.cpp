// Owns the first look at a JSON text, which decides whether there is a second one.
#include "runtime/store/strict_json.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace prime::store {
namespace {

using nlohmann::json;

/// Of a key, as a message shows it.
constexpr std::size_t LONGEST_NAME = 64;

/// Hears of what the parser meets; false ends it.
class Watch : public nlohmann::json_sax<json> {
 public:
  Watch(const JsonLimits& limits, std::size_t bytes) : limits_(limits), bytes_(bytes) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return stop("it holds what JSON does not know"); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool key(string_t& name) override {
    return keys_.back().insert(name).second || stop("an object names `" + name.substr(0, LONGEST_NAME) + "` twice");
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    if (byte > bytes_)
      return stop(bytes_ == 0 ? "it is empty" : "it is cut: it ends at byte " + std::to_string(bytes_) + ", before its JSON does");
    return stop("it is no JSON from byte " + std::to_string(byte) + " on");
  }

 private:
  bool stop(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool count() { return ++values_ <= limits_.values || stop("it holds more than " + std::to_string(limits_.values) + " values"); }
  bool open() {
    keys_.emplace_back();
    if (keys_.size() > limits_.depth) return stop("it nests deeper than " + std::to_string(limits_.depth));
    return count();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  std::size_t bytes_;
  std::string problem_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // of each object or array that is open
};

}  // namespace

tl::expected<json, std::string> parse_strictly(std::string_view text, const JsonLimits& limits) {
  Watch watch(limits, text.size());
  if (!json::sax_parse(text, &watch)) return tl::unexpected(watch.problem());
  return json::parse(text, nullptr, false);
}

}  // namespace prime::store
