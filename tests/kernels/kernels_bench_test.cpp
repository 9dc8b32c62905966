// Owns the test that the benchmark of the kernels measures all of them; what it measures is nobody's business here.
#include "runtime/bench/kernels_bench.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "messages/data_types.hpp"

using namespace prime;
using namespace prime::bench;

BOOST_AUTO_TEST_CASE(every_kernel_has_a_row_for_its_fast_and_its_reference_path) {
  const auto rows = bench_kernels({std::size_t{1} << 16, 1, true});
  std::map<std::string, int> references;
  for (const auto& row : rows) {
    BOOST_TEST((std::isfinite(row.bytes_touched_per_s) && row.bytes_touched_per_s > 0), row.kernel << " of " << row.codec);
    BOOST_TEST((std::isfinite(row.memcpy_share) && row.memcpy_share > 0), row.kernel << " of " << row.codec);
    references[row.kernel + " " + row.codec] += row.path == "reference" ? 1 : 100;
  }
  const std::size_t codec_kernels = 4 * (CODECS - 1);
  const std::size_t reduce_kernels = 4 + std::size_t{DATA_TYPES} * REDUCE_OPERATORS;
  BOOST_TEST(references.size() == codec_kernels + reduce_kernels);
  for (const auto& [kernel, paths] : references) BOOST_TEST(paths == 101, kernel);
  BOOST_TEST(bench_kernels({4096, 1, false}).size() == rows.size() / 2);
}
