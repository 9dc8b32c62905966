// Owns a Python process that does for the data what a library of Python's does best: it is started with a script, asked and heard over one
// socket, and ends with whoever started it. Such a library stays out of our processes: what it brings along may be there in another version
// already (libsentencepiece and libtorch both export the flags of a logger, of different sizes), and what makes it fall over ends no
// trainer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::data {

/// What is done there, for people. `subject` is named first: "a.parquet: Parquet is read by Python's pyarrow".
struct PythonWork {
  std::string subject;
  const char* library;  ///< of Python, and of its registry: "pyarrow"
  const char* work;     ///< "Parquet is read"
  const char* doing;    ///< "reads this Parquet file"
};

/// No script says more of what is wrong.
inline constexpr std::size_t MAX_COMPLAINT_BYTES = 64 * KIB;

/// Errors are ProcessFailed, and name the subject. For one thread at a time.
class PythonProcess {
 public:
  explicit PythonProcess(PythonWork work) : work_(std::move(work)) {}
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;
  ~PythonProcess();

  /// With the interpreter that PRIME_PYTHON names, or `python3`. Its standard input and output are the socket; `reason(error)` is there for
  /// `script`: the first line of an exception.
  Result<void> start(const char* script, std::vector<std::string> arguments);
  Result<void> write(std::span<const char> bytes);
  /// As many as fit.
  Result<void> read(std::span<char> into);

  /// There is no interpreter, or it has not got the library: with the command that cures it.
  [[nodiscard]] Error lacks_library(const std::string& why) const;
  /// It fell over, as one that is out of memory does, or says what makes no sense, and is ended.
  [[nodiscard]] Error ended_early();

 private:
  Result<void> wait_for(short event);
  int reap();

  PythonWork work_;
  store::Descriptor socket_;
  pid_t pid_ = 0;
  int status_ = 0;  ///< of its end
};

}  // namespace prime::data
