#include "cli/programs.hpp"

#include <filesystem>
#include <fstream>

#include "cli/render/shell_word.hpp"

namespace prime::cli {
namespace fs = std::filesystem;
namespace {

std::string beside(const char* name) {
  std::error_code error;
  const auto path = fs::path{own_program()}.parent_path() / name;
  return fs::exists(path, error) ? path.string() : name;
}

}  // namespace

std::string own_program() {
  std::error_code error;
  const auto path = fs::read_symlink("/proc/self/exe", error);
  return error ? "primectl" : path.string();
}

std::string typed_program() {
  std::ifstream words{"/proc/self/cmdline"};
  std::string first;
  std::getline(words, first, '\0');
  return first.empty() ? "primectl" : shell_word(first);
}

std::string trainer_program() { return beside("prime-trainer"); }

std::string libtorch_hint(std::string_view said) {
  if (said.find("shared librar") == std::string_view::npos || said.find("libtorch") == std::string_view::npos) return {};
  return "it needs libtorch: `lib/prime/torch`, beside `bin`, has to lead to the folder of the wheel `torch` (README), or TORCH_PREFIX "
         "names a "
         "libtorch to `./dev build`";
}

std::string inference_program() { return beside("prime-inference"); }

}  // namespace prime::cli
