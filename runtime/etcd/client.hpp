// Owns a client of etcd's v3 API, through its JSON gateway: as much of it as the lead of a run needs.
//
// Every call ends within its limit. It asks the endpoints in turn, the one that answered last first. A call that failed may have been
// carried out all the same; and a request that was given up may be carried out later, so that what must not happen then has a condition.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/etcd/access.hpp"

namespace prime::etcd {

/// The most that one value may hold: etcd itself takes requests of 1.5 MiB.
inline constexpr std::size_t VALUE_BYTES_MAX = 1 * MIB;
/// The most keys that one read returns.
inline constexpr std::size_t READ_KEYS_MAX = 64;

/// 0 stands for none, as in etcd.
using LeaseId = std::int64_t;

struct Entry {
  std::string key;
  std::string value;
  std::int64_t created = 0;   ///< etcd's revision at which the key was made; a key that was removed and made again is another one
  std::int64_t modified = 0;  ///< and at which it was written last
  LeaseId lease = 0;
};

/// Of a key as it is when the transaction is carried out; a key that is not there has 0 in all of them.
struct Condition {
  enum class Field : std::uint8_t { Created, Modified, Lease };
  std::string key;
  Field field = Field::Created;
  std::int64_t equals = 0;
};

struct Put {
  std::string key;
  std::string value;
  LeaseId lease = 0;
  bool lease_alone = false;  ///< the value stays what it is
};

struct Transaction {
  std::vector<Condition> conditions;
  std::vector<Put> puts;               ///< done when all conditions hold
  std::vector<std::string> otherwise;  ///< keys to read when not
};

struct Outcome {
  bool succeeded = false;
  std::int64_t revision = 0;                 ///< of the puts
  std::vector<std::optional<Entry>> others;  ///< what `otherwise` names, in its order
};

/// One thread at a time. All errors are StandbyStoreFailed.
class Client {
 public:
  explicit Client(const Access& access);
  /// Whether the last call failed by an answer that another try would hear again: a wrong password, no right to write, a full store.
  [[nodiscard]] bool refused() const;
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  Result<std::optional<Entry>> read(const std::string& key, Duration limit);
  /// Those whose keys begin so, by key; at most READ_KEYS_MAX.
  Result<std::vector<Entry>> read_all(const std::string& prefix, Duration limit);
  Result<void> put(const Put& put, Duration limit);
  Result<Outcome> commit(const Transaction& transaction, Duration limit);

  /// etcd counts leases in whole seconds: this one lasts for at least `length` after each renewal.
  Result<LeaseId> grant(Duration length, Duration limit);
  /// False when it has run out: everything under it is gone.
  Result<bool> renew(LeaseId lease, Duration limit);
  /// Removes everything under it. One that has run out is no error.
  Result<void> revoke(LeaseId lease, Duration limit);

 private:
  class Connection;
  Result<nlohmann::json> call(const char* method, const nlohmann::json& request, Duration limit);

  std::vector<std::string> endpoints_;
  std::size_t first_ = 0;  ///< the one that answered last
  std::unique_ptr<Connection> connection_;
};

}  // namespace prime::etcd
