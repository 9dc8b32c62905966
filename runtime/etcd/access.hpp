// Owns what leads into an etcd: its endpoints, and how this machine proves itself there.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::etcd {

/// Paths are of PEM files; empty texts: none.
struct Access {
  std::vector<std::string> endpoints;
  std::string authority = {};    ///< by which its certificate is judged, instead of those that the system trusts
  std::string certificate = {};  ///< shown to an etcd that asks for one
  std::string key = {};
  std::string user = {};
  std::string password = {};

  Access() = default;
  Access(std::vector<std::string> open) : endpoints(std::move(open)) {}  // NOLINT(google-explicit-constructor)
  Access(std::initializer_list<std::string> open) : endpoints(open) {}   // NOLINT(google-explicit-constructor)
};

/// As a manifest says it; the password is read from its file. Errors: Usage names the key and what is wrong with it.
Result<Access> access_of(std::vector<std::string> endpoints, const manifest::EtcdAccess& local);

}  // namespace prime::etcd
