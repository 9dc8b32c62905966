#include "cli/output_file.hpp"

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/atomic_file.hpp"

namespace prime::cli {

bool is_standard_output(const std::string& path) {
  struct stat named = {}, ours = {};
  if (::stat(path.c_str(), &named) != 0 || ::fstat(STDOUT_FILENO, &ours) != 0) return false;
  // Of /dev/null nothing comes out.
  const bool swallowed = S_ISCHR(named.st_mode) && ::isatty(STDOUT_FILENO) == 0;
  return named.st_dev == ours.st_dev && named.st_ino == ours.st_ino && !swallowed;
}

Result<void> check_output(const std::string& flag, const std::string& out, std::span<const std::string> inputs, bool prints) {
  std::error_code ignored;
  const auto hidden = store::hidden_name(std::filesystem::weakly_canonical(out, ignored));
  for (const auto& input : inputs)
    if (store::same_file(out, input) || store::same_file(hidden, input))
      return fail(ErrorName::Usage, flag + " " + out + " would write over " + (out == input ? "what is read" : input + ", which is read") +
                                        ": name another file");
  if (prints && is_standard_output(out))
    return fail(ErrorName::Usage, flag + " " + out + " would be mixed with what this command prints: name a file");
  return store::check_writable(out);
}

}  // namespace prime::cli
