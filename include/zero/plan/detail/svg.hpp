// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// SvgWriter: shapes and texts of an SVG picture. Includes the standard library.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <string>
#include <string_view>

namespace zero::detail {

/// A round distance between ticks that gives about ten of them.
inline double tick_distance(double length) {
  const double rough = std::max(length, 1e-9) / 10;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  return power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
}
inline std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}
/// The same text in every locale.
inline std::string decimal(double value, int digits) {
  char text[400];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits);
  return {text, end.ptr};
}

/// Lines of SVG. Numbers are pixels.
class SvgWriter {
 public:
  explicit SvgWriter(std::ostream& out) : out_(out) {}

  void rect(double x, double y, double w, double h, std::string_view style) {
    out_ << "<rect x=\"" << decimal(x, 2) << "\" y=\"" << decimal(y, 2) << "\" width=\""
         << decimal(w, 2) << "\" height=\"" << decimal(h, 2) << "\" " << style << "/>";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    out_ << "<line x1=\"" << decimal(x1, 2) << "\" y1=\"" << decimal(y1, 2) << "\" x2=\""
         << decimal(x2, 2) << "\" y2=\"" << decimal(y2, 2) << "\" " << style << "/>";
  }
  void text(double x, double y, std::string_view style, std::string_view text) {
    out_ << "<text x=\"" << decimal(x, 2) << "\" y=\"" << decimal(y, 2) << "\" " << style << '>'
         << escape_xml(text) << "</text>";
  }
  /// Centred, from bottom to top.
  void upright(double x, double y, const std::string& style, std::string_view label) {
    text(x, y, style + " transform=\"rotate(-90 " + decimal(x, 2) + ' ' + decimal(y, 2) + ")\"",
         label);
  }
  std::ostream& out() { return out_; }

  /// About how wide a text is.
  static double width(std::string_view text, double font_size) {
    return 0.62 * font_size * static_cast<double>(text.size());
  }

 private:
  std::ostream& out_;
};

}  // namespace zero::detail
