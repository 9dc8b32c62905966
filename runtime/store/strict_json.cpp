// Owns the first look at a JSON text, which decides whether there is a second one.
#include "runtime/store/strict_json.hpp"

#include <set>
#include <string>
#include <vector>

namespace prime::store {
namespace {

using nlohmann::json;

/// Hears of what the parser meets; false ends it.
class Watch : public nlohmann::json_sax<json> {
 public:
  explicit Watch(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool key(string_t& name) override { return keys_.back().insert(name).second; }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool count() { return ++values_ <= limits_.values; }
  bool open() {
    keys_.emplace_back();
    return keys_.size() <= limits_.depth && count();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;  // of each object or array that is open
};

}  // namespace

std::optional<json> parse_strictly(std::string_view text, const JsonLimits& limits) {
  Watch watch(limits);
  if (!json::sax_parse(text, &watch)) return std::nullopt;
  auto parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return std::nullopt;
  return parsed;
}

}  // namespace prime::store
