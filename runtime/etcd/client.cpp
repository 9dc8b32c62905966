#include "runtime/etcd/client.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <curl/curl.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "runtime/clock.hpp"

namespace prime::etcd {
namespace {

using nlohmann::json;

/// The most of an answer that is believed: one value of every key that a read may return would be more than any run has.
constexpr std::size_t ANSWER_BYTES_MAX = 4 * MIB;
/// What an attempt gets at least, however many endpoints are left to be asked.
constexpr Duration ATTEMPT_AT_LEAST = 50ms;

std::string encode(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const auto length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                                      static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// Empty, too, for what is no such text.
std::string decode(const std::string& text) {
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  const auto length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()));
  if (length < 0) return {};
  const auto padding = static_cast<std::size_t>(text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0);
  bytes.resize(static_cast<std::size_t>(length) - padding);
  return bytes;
}

/// The gateway writes 64-bit numbers as texts, and leaves out zeros.
std::int64_t number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Entry entry_of(const json& kv) {
  return {decode(kv.value("key", std::string{})), decode(kv.value("value", std::string{})), number(kv, "create_revision"),
          number(kv, "mod_revision"), number(kv, "lease")};
}

std::vector<Entry> entries_of(const json& range) {
  std::vector<Entry> entries;
  for (const auto& kv : range.value("kvs", json::array())) entries.push_back(entry_of(kv));
  return entries;
}

std::optional<Entry> first_of(const json& range) {
  auto entries = entries_of(range);
  return entries.empty() ? std::nullopt : std::optional{std::move(entries.front())};
}

/// The first key behind all that begin so; the prefixes of a run end with a slash.
std::string end_of(std::string prefix) {
  ++prefix.back();
  return prefix;
}

json to_json(const Condition& condition) {
  const auto [target, number] = [&]() -> std::pair<const char*, const char*> {
    switch (condition.field) {
      case Condition::Field::Created: return {"CREATE", "create_revision"};
      case Condition::Field::Modified: return {"MOD", "mod_revision"};
      case Condition::Field::Lease: break;
    }
    return {"LEASE", "lease"};
  }();
  return {{"key", encode(condition.key)}, {"result", "EQUAL"}, {"target", target}, {number, std::to_string(condition.equals)}};
}

json to_json(const Put& put) {
  json request{{"key", encode(put.key)}, {"lease", std::to_string(put.lease)}};
  if (put.lease_alone) request["ignore_value"] = true;
  else request["value"] = encode(put.value);
  return request;
}

Error store_error(std::string detail) { return Error{ErrorName::StandbyStoreFailed, std::move(detail)}; }

}  // namespace

/// What etcd says, in our words where it can be helped. Another try would hear the same.
struct Refusal {
  std::string_view said;
  std::string_view advice;
};
constexpr std::array REFUSALS{
    Refusal{"database space exceeded", "it is full: compact and defragment it, then `etcdctl alarm disarm` (docs/ARCHITECTURE.md)"},
    Refusal{"permission denied", "this user may not read and write below /prime/: grant it a role that may"},
    Refusal{"authentication failed", "user or password is wrong: `local.etcd.user`, `local.etcd.password_file`"},
    Refusal{"user name is empty", "it wants a user: `local.etcd.user`, `local.etcd.password_file`"},
    Refusal{"invalid user name", "user or password is wrong: `local.etcd.user`, `local.etcd.password_file`"},
};
/// A token that etcd no longer knows, after a restart of it or some minutes.
constexpr std::string_view OLD_TOKEN = "invalid auth token";

/// One handle of libcurl, which keeps its connections open from call to call.
class Client::Connection {
 public:
  explicit Connection(Access access) : access_(std::move(access)), curl_(curl_easy_init()) { set_headers(); }
  ~Connection() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(curl_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The answer to a POST; the error's detail begins with `url`'s endpoint. Who has a user proves it first, and again where etcd has
  /// forgotten it.
  Result<json> post(const std::string& endpoint, const char* method, const std::string& body, Duration limit) {
    const auto until = monotonic_now() + limit;
    if (!access_.user.empty() && token_.empty()) PRIME_CHECK(prove_user(endpoint, limit));
    auto answer = post_once(endpoint, method, body, until - monotonic_now());
    if (answer || access_.user.empty() || answer.error().detail.find(OLD_TOKEN) == std::string::npos) return answer;
    PRIME_CHECK(prove_user(endpoint, until - monotonic_now()));
    return post_once(endpoint, method, body, until - monotonic_now());
  }
  /// Whether the last answer was a refusal that would be repeated.
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  void set_headers() {
    curl_slist_free_all(headers_);
    headers_ = curl_slist_append(nullptr, "Content-Type: application/json");
    if (!token_.empty()) headers_ = curl_slist_append(headers_, ("Authorization: " + token_).c_str());
  }

  Result<void> prove_user(const std::string& endpoint, Duration limit) {
    token_.clear();
    set_headers();
    const json request{{"name", access_.user}, {"password", access_.password}};
    PRIME_TRY(const auto answer,
              post_once(endpoint, "/v3/auth/authenticate", request.dump(-1, ' ', false, json::error_handler_t::replace), limit));
    const auto token = answer.find("token");
    if (token == answer.end() || !token->is_string()) return fail(store_error(endpoint + ": it gives user " + access_.user + " no token"));
    token_ = token->get<std::string>();
    set_headers();
    return {};
  }

  Error refusal(const std::string& endpoint, const std::string& said) {
    for (const auto& each : REFUSALS)
      if (said.find(each.said) != std::string::npos) {
        refused_ = true;
        return store_error(endpoint + ": " + said + "; " + std::string{each.advice});
      }
    return store_error(endpoint + ": " + said);
  }

  /// Of a connection that TLS did not let come about.
  Error unsafe(const std::string& endpoint, CURLcode code) {
    std::string_view advice;
    if (code == CURLE_PEER_FAILED_VERIFICATION) advice = "; `local.etcd.authority` names the CA of its certificate";
    if (code == CURLE_SSL_CERTPROBLEM || said_.find("certificate required") != std::string::npos ||
        said_.find("bad certificate") != std::string::npos)
      advice = "; it wants another certificate of this machine: `local.etcd.certificate` and `local.etcd.key`";
    if (code == CURLE_SSL_CACERT_BADFILE) advice = "; `local.etcd.authority` is no PEM file of certificates";
    refused_ = !advice.empty();
    const std::string_view why = said_.empty() ? std::string_view{curl_easy_strerror(code)} : said_;
    return store_error(endpoint + ": " + std::string{why} + std::string{advice});
  }

  Result<json> post_once(const std::string& endpoint, const char* method, const std::string& body, Duration limit) {
    refused_ = false;
    if (curl_ == nullptr) return fail(store_error("libcurl has no memory left"));
    const auto url = endpoint + method;
    std::string answer;
    curl_easy_reset(curl_);  // what is open stays open
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers_);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, std::max<long>(1, std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()));
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl_, CURLOPT_NOPROXY, "*");  // a proxy for the web is no way to a store
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    const auto file = [&](CURLoption option, const std::string& path) {
      if (!path.empty()) curl_easy_setopt(curl_, option, path.c_str());
    };
    file(CURLOPT_CAINFO, access_.authority);
    file(CURLOPT_SSLCERT, access_.certificate);
    file(CURLOPT_SSLKEY, access_.key);
    std::array<char, CURL_ERROR_SIZE> said{};
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, said.data());
    const auto done = curl_easy_perform(curl_);
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, nullptr);
    said_ = said.data();
    if (done == CURLE_WRITE_ERROR)
      return fail(store_error(endpoint + ": an answer of more than " + std::to_string(ANSWER_BYTES_MAX) + " bytes"));
    if (done != CURLE_OK) return fail(unsafe(endpoint, done));
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    auto object = json::parse(answer, nullptr, false);
    if (!object.is_object()) return fail(store_error(endpoint + ": it answers as no etcd does, with status " + std::to_string(status)));
    const auto why = object.find("error");
    const bool says_why = why != object.end() && why->is_string();
    if (status != 200) return fail(refusal(endpoint, says_why ? why->get<std::string>() : "status " + std::to_string(status)));
    return object;
  }

  static std::size_t take(const char* bytes, std::size_t size, std::size_t count, void* into) {
    auto& answer = *static_cast<std::string*>(into);
    if (answer.size() + size * count > ANSWER_BYTES_MAX) return 0;
    answer.append(bytes, size * count);
    return size * count;
  }

  Access access_;
  CURL* curl_;
  curl_slist* headers_ = nullptr;
  std::string token_;  ///< of the user; etcd forgets it after some minutes
  std::string said_;   ///< by libcurl, of what went wrong last
  bool refused_ = false;
};

Client::Client(const Access& access) : endpoints_(access.endpoints), connection_(std::make_unique<Connection>(access)) {}
bool Client::refused() const { return connection_->refused(); }
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Result<json> Client::call(const char* method, const json& request, Duration limit) {
  const auto until = monotonic_now() + limit;
  const auto body = request.dump(-1, ' ', false, json::error_handler_t::replace);
  Error last = store_error("no endpoint is named");
  for (std::size_t asked = 0; asked < endpoints_.size(); ++asked) {
    const auto index = (first_ + asked) % endpoints_.size();
    // One that swallows everything must not keep the others from being asked.
    const auto share = (until - monotonic_now()) / static_cast<int>(endpoints_.size() - asked);
    auto answer = connection_->post(endpoints_[index], method, body, std::max(Duration{share}, ATTEMPT_AT_LEAST));
    if (answer) {
      first_ = index;
      return answer;
    }
    last = std::move(answer.error());
  }
  return fail(std::move(last));
}

Result<std::optional<Entry>> Client::read(const std::string& key, Duration limit) try {
  PRIME_TRY(const auto answer, call("/v3/kv/range", {{"key", encode(key)}}, limit));
  return first_of(answer);
} catch (const json::exception& error) {
  return fail(store_error(error.what()));
}

Result<std::vector<Entry>> Client::read_all(const std::string& prefix, Duration limit) try {
  PRIME_TRY(const auto answer,
            call("/v3/kv/range", {{"key", encode(prefix)}, {"range_end", encode(end_of(prefix))}, {"limit", std::to_string(READ_KEYS_MAX)}},
                 limit));
  return entries_of(answer);
} catch (const json::exception& error) {
  return fail(store_error(error.what()));
}

Result<void> Client::put(const Put& put, Duration limit) {
  if (put.value.size() > VALUE_BYTES_MAX) return fail(store_error(put.key + " would hold " + std::to_string(put.value.size()) + " bytes"));
  PRIME_CHECK(call("/v3/kv/put", to_json(put), limit));
  return {};
}

Result<Outcome> Client::commit(const Transaction& transaction, Duration limit) try {
  json request{{"compare", json::array()}, {"success", json::array()}, {"failure", json::array()}};
  for (const auto& condition : transaction.conditions) request["compare"].push_back(to_json(condition));
  for (const auto& put : transaction.puts) {
    if (put.value.size() > VALUE_BYTES_MAX)
      return fail(store_error(put.key + " would hold " + std::to_string(put.value.size()) + " bytes"));
    request["success"].push_back({{"request_put", to_json(put)}});
  }
  for (const auto& key : transaction.otherwise) request["failure"].push_back({{"request_range", {{"key", encode(key)}}}});
  PRIME_TRY(const auto answer, call("/v3/kv/txn", request, limit));
  Outcome outcome{answer.value("succeeded", false), number(answer.value("header", json::object()), "revision"), {}};
  if (outcome.succeeded) return outcome;
  for (const auto& response : answer.value("responses", json::array()))
    outcome.others.push_back(first_of(response.value("response_range", json::object())));
  outcome.others.resize(transaction.otherwise.size());
  return outcome;
} catch (const json::exception& error) {
  return fail(store_error(error.what()));
}

Result<LeaseId> Client::grant(Duration length, Duration limit) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(length).count();
  PRIME_TRY(const auto answer, call("/v3/lease/grant", {{"TTL", std::to_string(seconds)}}, limit));
  const auto lease = number(answer, "ID");
  if (lease == 0) return fail(store_error("it grants no lease"));
  return lease;
}

Result<bool> Client::renew(LeaseId lease, Duration limit) try {
  PRIME_TRY(const auto answer, call("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, limit));
  return number(answer.value("result", json::object()), "TTL") > 0;
} catch (const json::exception& error) {
  return fail(store_error(error.what()));
}

Result<void> Client::revoke(LeaseId lease, Duration limit) {
  const auto answer = call("/v3/lease/revoke", {{"ID", std::to_string(lease)}}, limit);
  if (answer || answer.error().detail.ends_with("requested lease not found")) return {};
  return fail(answer.error());
}

}  // namespace prime::etcd
