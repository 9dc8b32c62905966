// Owns what a trainer says of the data that it trains on.
#pragma once

#include <cstddef>
#include <string>

#include "messages/ids.hpp"

namespace prime {

inline constexpr std::size_t MAX_DATA_SUMMARY_BYTES = 1000;
inline constexpr std::size_t MAX_DATA_LISTING_BYTES = 8 * 1024;

/// Peers whose samples are numbered alike must have the same data, or some train on what others hold out.
struct DataIdentity {
  Digest digest;             ///< of what must be equal on all peers; 0: nothing is told
  std::string summary;       ///< one line for people, at most MAX_DATA_SUMMARY_BYTES
  std::string listing = {};  ///< what there is, so that two that differ can say in what: messages/data_listing.hpp; may be empty
  [[nodiscard]] bool told() const { return digest != Digest{}; }
  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, DataIdentity& x) {
  return f(x.digest, x.summary, x.listing);
}

}  // namespace prime
