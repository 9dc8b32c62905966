#include "runtime/etcd/access.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace prime::etcd {
namespace {

/// The first line of a file that others cannot read.
Result<std::string> read_password(const std::string& file) {
  const auto wrong = [&](const std::string& why) { return fail(ErrorName::Usage, "`local.etcd.password_file`: " + file + " " + why); };
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0) return wrong(std::string{"cannot be read: "} + std::strerror(errno));
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) return wrong("can be read by others: `chmod 600` it");
  std::ifstream stream{file};
  std::string password;
  if (!std::getline(stream, password) || password.empty()) return wrong("has no password in its first line");
  if (password.back() == '\r') password.pop_back();
  return password;
}

/// libcurl names neither the file nor the key.
Result<void> check_readable(const char* key, const std::optional<std::string>& path) {
  if (!path || ::access(path->c_str(), R_OK) == 0) return {};
  return fail(ErrorName::Usage, std::string{"`local.etcd."} + key + "`: " + *path + " cannot be read: " + std::strerror(errno));
}

}  // namespace

Result<Access> access_of(std::vector<std::string> endpoints, const manifest::EtcdAccess& local) {
  PRIME_CHECK(check_readable("authority", local.authority));
  PRIME_CHECK(check_readable("certificate", local.certificate));
  PRIME_CHECK(check_readable("key", local.key));
  if (local.certificate.has_value() != local.key.has_value())
    return fail(ErrorName::Usage, "`local.etcd.certificate` and `local.etcd.key` belong together");
  if (local.user.has_value() != local.password_file.has_value())
    return fail(ErrorName::Usage, "`local.etcd.user` and `local.etcd.password_file` belong together");
  Access access{std::move(endpoints)};
  access.authority = local.authority.value_or("");
  access.certificate = local.certificate.value_or("");
  access.key = local.key.value_or("");
  access.user = local.user.value_or("");
  if (local.password_file) {
    PRIME_TRY(access.password, read_password(*local.password_file));
  }
  return access;
}

}  // namespace prime::etcd
