// Owns what the manifest tests share: files of the repository, and re-recording of golden ones.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/repository.hpp"

namespace prime::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Compares with a committed file; with PRIME_RECORD=1 writes it instead, for a person to look at.
inline void check_golden(const std::filesystem::path& path, const std::string& actual) {
  if (std::getenv("PRIME_RECORD") != nullptr) std::ofstream{path, std::ios::binary} << actual;
  BOOST_TEST_CONTEXT(path) { BOOST_TEST(read_file(path) == actual); }
}

inline std::vector<std::filesystem::path> files_with(const std::filesystem::path& folder, const std::string& extension) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator{folder})
    if (entry.path().extension() == extension) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace prime::test
