// Owns the tests of figures, colours and columns.
#include "cli/render/figures.hpp"

#include <cmath>

#include "cli/render/columns.hpp"
#include "cli/render/style.hpp"
#include "support.hpp"

namespace prime::cli {

BOOST_AUTO_TEST_SUITE(figures)

BOOST_AUTO_TEST_CASE(figures_are_short_and_never_carry_over) {
  BOOST_TEST(rate_figure(950.0) == "950");
  BOOST_TEST(rate_figure(999.9) == "1.0k");
  BOOST_TEST(rate_figure(21400.0) == "21.4k");
  BOOST_TEST(rate_figure(999960.0) == "1.0M");
  BOOST_TEST(bit_rate_figure(40e6) == "40.0 Mbit/s");
  BOOST_TEST(bit_rate_figure(999960.0) == "1.0 Mbit/s");
  BOOST_TEST(bit_rate_figure(0.0) == "0.0 bit/s");
  BOOST_TEST(share_figure(0.9534) == "95.3 %");
  BOOST_TEST(bytes_figure(640) == "640 B");
  BOOST_TEST(bytes_figure(1100000) == "1.1 MB");
  BOOST_TEST(short_time_figure(0.00025) == "250 us");
  BOOST_TEST(short_time_figure(0.0031) == "3.1 ms");
  BOOST_TEST(short_time_figure(0.0412) == "41 ms");
  BOOST_TEST(short_time_figure(0.9999) == "1.00 s");
  BOOST_TEST(elapsed_figure(1.24) == "1.2s");
  BOOST_TEST(elapsed_figure(59.97) == "1m00s");
  BOOST_TEST(elapsed_figure(161) == "2m41s");
  BOOST_TEST(elapsed_figure(11100) == "3h05m");
}

BOOST_AUTO_TEST_CASE(what_is_unknown_is_shown_as_unknown) {
  BOOST_TEST(loss_figure(std::nullopt) == "-");
  BOOST_TEST(rate_figure(std::nan("")) == "-");
  BOOST_TEST(bit_rate_figure(std::nullopt) == "-");
  BOOST_TEST(share_figure(std::nullopt) == "-");
  BOOST_TEST(bytes_figure(std::nullopt) == "-");
  BOOST_TEST(short_time_figure(std::nullopt) == "-");
}

BOOST_AUTO_TEST_CASE(a_sparkline_shows_the_newest_values) {
  const std::vector<double> values{9, 4, 3, 2, 1};
  BOOST_TEST(sparkline(values, 4, true) == "█▆▃▁");
  BOOST_TEST(sparkline(values, 4, false) == "7520");
  BOOST_TEST(sparkline(std::vector{1.0}, 4, true) == "");
  BOOST_TEST(sparkline(std::vector{2.0, 2.0, std::nan("")}, 4, false) == "00");
}

BOOST_AUTO_TEST_CASE(columns_leave_no_trailing_blanks) {
  BOOST_TEST(columns({{"A"}, {"LONG", Align::Right}, {"C"}}, {{"x", "1", "note"}, {"yy", "22", ""}}) ==
             "A   LONG  C\nx      1  note\nyy    22\n");
}

BOOST_AUTO_TEST_CASE(colour_needs_a_terminal_and_nobody_against_it) {
  const StyleChoice terminal{Colour::Auto, true, {}, {}, "xterm", "de_DE.UTF-8"};
  BOOST_TEST((choose_style(terminal) == Style{true, true}));
  auto choice = terminal;
  choice.terminal = false;
  BOOST_TEST((choose_style(choice) == Style{false, false}));
  choice.clicolor_force = "1";
  BOOST_TEST(choose_style(choice).colour);
  choice = terminal;
  choice.no_color = "1";
  BOOST_TEST(!choose_style(choice).colour);
  choice = terminal;
  choice.term = "dumb";
  BOOST_TEST((choose_style(choice) == Style{false, false}));
  choice.colour = Colour::Always;
  BOOST_TEST(choose_style(choice).colour);
  choice = terminal;
  choice.colour = Colour::Never;
  BOOST_TEST(!choose_style(choice).colour);
}

BOOST_AUTO_TEST_CASE(what_strangers_say_moves_no_cursor) {
  BOOST_TEST(harmless("evil\x1b[2J\n\x7f é") == "evil?[2J?? é");
  BOOST_TEST(harmless("a\u202Eb\u2066c\u200Fd\u061Ce\u2028f") == "a?b?c?d?e?f",
             "what turns the order of what stands around it, and breaks a line");
  BOOST_TEST(harmless("\x9b"
                      "2J \xc3 \xe2\x80 \xed\xa0\x80 \xc0\x9b \xf4\x90\x80\x80") == "?2J ? ?? ??? ?? ????",
             "what is no UTF-8");
  BOOST_TEST(harmless("\xef\xbf\xbd 日本 👩‍💻") == "\xef\xbf\xbd 日本 👩‍💻");
  const Style colours{true, true, 80};
  const auto page = paint(colours, Role::Bad, "error:") + " one\n\ttwo " + paint(colours, Role::Strong, "x") + "\n";
  BOOST_TEST(harmless_page(page) == page);
  BOOST_TEST(harmless_page("a\x1b[2J\x1b]0;t\x07\r\u202E\n") == "a?[2J?]0;t???\n");
  BOOST_TEST(harmless("\xc2\x9b"
                      "2J\xc2") == "?2J?",
             "the same in one character");
}

BOOST_AUTO_TEST_CASE(verbs_form_a_column) {
  BOOST_TEST(verb({}, Role::Good, "Ready") == "      Ready ");
  BOOST_TEST(verb({true, false}, Role::Good, "Ready") == "      \x1b[32mReady\x1b[0m ");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::cli
