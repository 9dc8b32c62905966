#include "cli/programs.hpp"

#include <filesystem>

namespace prime::cli {
namespace fs = std::filesystem;

std::string own_program() {
  std::error_code error;
  const auto path = fs::read_symlink("/proc/self/exe", error);
  return error ? "primectl" : path.string();
}

std::string trainer_program() {
  constexpr const char* NAME = "prime-trainer";
  std::error_code error;
  const auto beside = fs::path{own_program()}.parent_path() / NAME;
  return fs::exists(beside, error) ? beside.string() : NAME;
}

}  // namespace prime::cli
