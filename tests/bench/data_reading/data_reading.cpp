// Owns data-reading, the measured half of the benchmark of data: `data-reading read FILE` reads reads, `inflate FILE.gz` unpacks with zlib
// alone, `tokenize TOKENIZER FILE` encodes lines. Each prints bytes and seconds.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>
#include <zlib.h>

#include "runtime/trainer/data/record_reader.hpp"
#include "runtime/trainer/data/tokenizer.hpp"

namespace {

using namespace prime;

class Watch {
 public:
  int print(std::uint64_t bytes) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    std::printf("%llu %.6f\n", static_cast<unsigned long long>(bytes), seconds.count());
    return 0;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Bases and scores are about half of a file each; what is counted is both and the header, as the file has them.
int read_reads(const char* path) {
  const Watch watch;
  const auto reader = data::open_fastq(path);
  if (!reader) return 1;
  data::Record record;
  std::uint64_t bytes = 0;
  while (true) {
    const auto more = (*reader)->next(record);
    if (!more || !record.broken.empty()) return 1;
    if (!*more) return watch.print(bytes);
    bytes += record.text.size() + record.quality.size();
  }
}

int inflate(const char* path) {
  const Watch watch;
  auto* const file = ::gzopen(path, "rb");
  if (file == nullptr) return 1;
  ::gzbuffer(file, 1 << 18);
  std::vector<char> buffer(1 << 18);
  std::uint64_t bytes = 0;
  for (int got = 0; (got = ::gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0;) bytes += static_cast<unsigned>(got);
  ::gzclose(file);
  return watch.print(bytes);
}

int tokenize(const char* tokenizer_path, const char* path) {
  const auto tokenizer = data::Tokenizer::open({tokenizer_path, {}}, 1U << 20);
  if (!tokenizer) return 1;
  std::vector<std::string> lines;
  std::uint64_t bytes = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line); bytes += line.size()) lines.push_back(line);
  const Watch watch;
  data::Encoder encoder(*tokenizer);
  std::vector<data::Token> tokens;
  for (const auto& line : lines) {
    tokens.clear();
    if (!encoder.encode(line, tokens)) return 1;
  }
  return watch.print(bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "read") return read_reads(argv[2]);
  if (what == "inflate") return inflate(argv[2]);
  if (what == "tokenize" && argc > 3) return tokenize(argv[2], argv[3]);
  std::fputs("usage: data-reading read FILE | inflate FILE.gz | tokenize TOKENIZER FILE\n", stderr);
  return 2;
}
