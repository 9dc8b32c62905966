// Owns what the tests of data share: a folder of their own, packed files, programs in the place of Python, and sources that are compiled
// there.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "runtime/trainer/data/corpus.hpp"

namespace prime::data::test {

namespace fs = std::filesystem;

/// A folder that goes with the test.
struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "prime-data-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    root = pattern;
  }
  ~Folder() { fs::remove_all(root); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& content) const {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary) << content;
    return (root / name).string();
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (root / name).string(); }
  fs::path root;
};

/// A program in the place of Python, for as long as it is there.
struct Interpreter {
  explicit Interpreter(const std::string& path) { ::setenv("PRIME_PYTHON", path.c_str(), 1); }
  Interpreter(const Folder& folder, const std::string& script) : Interpreter(folder.write("python", "#!/bin/sh\n" + script + "\n")) {
    ::chmod(folder.path("python").c_str(), 0755);
  }
  ~Interpreter() { ::unsetenv("PRIME_PYTHON"); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
};

inline std::string gzipped(const std::string& text) {
  z_stream z{};
  BOOST_REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&z, static_cast<uLong>(text.size())) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  BOOST_REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

inline std::string zstd_packed(const std::string& text, const std::string& dictionary = {}) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  auto* context = ZSTD_createCCtx();
  const auto size =
      ZSTD_compress_usingDict(context, packed.data(), packed.size(), text.data(), text.size(), dictionary.data(), dictionary.size(), 3);
  ZSTD_freeCCtx(context);
  BOOST_REQUIRE(!ZSTD_isError(size));
  packed.resize(size);
  return packed;
}

/// Compiled into a cache of the folder's.
inline Result<Corpus> open(const Folder& folder, const std::vector<Source>& sources, std::uint32_t context = 4, std::uint32_t vocab = 257) {
  manifest::Data data;
  data.sources = sources;
  data.held_out_percent = 0;
  return Corpus::open(data, {context, 1, vocab}, {folder.root / "cache", ~0ULL, 2, {}});
}

inline Source source_of(const std::string& path, DataFormat format) {
  Source source;
  source.paths = {path};
  source.format = format;
  return source;
}

/// The documents of all sources in their order, each with "|" behind it where it ends.
inline std::string documents_of(const Corpus& corpus) {
  std::string text;
  for (const auto& shard : corpus.shards()) {
    std::vector<Token> tokens(shard.tokens());
    BOOST_REQUIRE(shard.read(0, tokens));
    for (const auto token : tokens) text += token == BYTE_VALUES ? '|' : static_cast<char>(token);
  }
  return text;
}

}  // namespace prime::data::test
