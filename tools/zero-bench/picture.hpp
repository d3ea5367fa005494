// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The ratios as a picture. Includes headers beside it and zero/plan.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>
#include <zero/plan/detail/svg.hpp>

#include "rows.hpp"

namespace zero_bench {

/// A bar for each row that has a limit, as long as it comes near to it: the line at 1 is the limit.
inline void print_picture(std::ostream& out, const std::vector<Part>& parts,
                          const std::string& title) {
  using zero::detail::decimal;
  constexpr double left = 300, one = 480, most = 1.25, right = 210, row_height = 21;
  constexpr const char* colors[] = {"#0072b2", "#009e73", "#e69f00", "#56b4e9", "#cc79a7"};
  const auto has_limit = [](const Row& row) { return row.ratio > 0; };
  double height = 60;
  for (const Part& part : parts) {
    const auto rows = std::count_if(part.rows.begin(), part.rows.end(), has_limit);
    if (rows > 0) height += 42 + row_height * static_cast<double>(rows);
  }
  const double width = left + most * one + right;
  zero::detail::SvgWriter svg(out);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << decimal(width, 0) << ' '
      << decimal(height, 0)
      << "\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"13\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  svg.text(14, 28, "font-size=\"18\" font-weight=\"bold\"", title);
  double y = 52;
  std::size_t color = 0;
  for (const Part& part : parts) {
    const auto rows = std::count_if(part.rows.begin(), part.rows.end(), has_limit);
    if (rows == 0) continue;
    const double bottom = y + 26 + row_height * static_cast<double>(rows);
    svg.text(14, y + 14, "font-weight=\"bold\"", part.title);
    svg.text(std::max(left, 30 + zero::detail::SvgWriter::width(part.title, 13)), y + 14,
             "fill=\"#555555\"", "part of the limit: " + part.limit);
    y += 24;
    for (const double tick : {0.25, 0.5, 0.75, 1.0}) {
      const double x = left + tick * one;
      svg.line(x, y, x, bottom,
               tick == 1.0 ? "stroke=\"#000000\" stroke-width=\"1.5\"" : "stroke=\"#dddddd\"");
    }
    const std::string fill = std::string("fill=\"") + colors[color++ % std::size(colors)] + '"';
    for (const Row& row : part.rows) {
      if (!has_limit(row)) continue;
      svg.text(left - 10, y + 15, "text-anchor=\"end\"", row.name);
      svg.rect(left, y + 3, std::min(row.ratio, most) * one, row_height - 6, fill);
      svg.text(left + most * one + 10, y + 15, "",
               digits(row.ratio) + (row.ratio > most ? " (cut)" : ""));
      svg.text(width - 14, y + 15, "text-anchor=\"end\" fill=\"#555555\"",
               row.is_time() ? time(row.seconds)
                             : digits(row.value) + ' ' + row.unit + ", " + time(row.seconds));
      out << '\n';
      y += row_height;
    }
    y = bottom + 16;
  }
  out << "</svg>\n";
}

}  // namespace zero_bench
