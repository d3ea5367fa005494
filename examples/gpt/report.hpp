// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Compares trainings in several stages: a table for people, JSON for programs, and what is wrong in
// a sentence. Includes basic_trainer.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "basic_trainer.hpp"

namespace gpt {

/// The mean over the last ten steps: a batch more or less hardly moves it.
inline double final_loss(const Training& t) {
  const std::size_t last = std::min<std::size_t>(t.losses.size(), 10);
  double sum = 0;
  for (std::size_t i = t.losses.size() - last; i < t.losses.size(); ++i) sum += t.losses[i];
  return sum / static_cast<double>(last);
}

/// "0x1.8p+1": all bits of a number.
inline std::string hex(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

struct Figure {
  const char* name;
  std::size_t predicted, measured;

  bool agrees() const { return predicted == measured; }
};
inline std::vector<Figure> figures_held(const Training& t) {
  const zero::BytesHeld &p = t.predicted_held, &m = t.held;
  return {{"weights", p.weights, m.weights},       {"gradients", p.gradients, m.gradients},
          {"optimizer", p.optimizer, m.optimizer}, {"slots", p.slots, m.slots},
          {"control", p.control, m.control},       {"total", p.total(), m.total()}};
}
inline std::vector<Figure> figures_sent(const Training& t) {
  const zero::BytesSent &p = t.predicted_sent, &m = t.sent;
  return {{"all_gather", p.all_gather, m.all_gather},
          {"reduce_scatter", p.reduce_scatter, m.reduce_scatter},
          {"all_reduce", p.all_reduce, m.all_reduce},
          {"total", p.total(), m.total()}};
}

/// What is not as it must be, in one sentence; empty if all is.
inline std::string complaint(std::span<const Training> trainings) {
  for (const Training& t : trainings) {
    for (const auto& [kind, figures] :
         {std::pair("bytes held by a rank", figures_held(t)), {"bytes sent", figures_sent(t)}})
      for (const Figure& f : figures)
        if (!f.agrees())
          return t.name + ": " + kind + ", " + f.name + ": " + std::to_string(f.predicted) +
                 " predicted, but " + std::to_string(f.measured) + " measured.";
    for (std::size_t i = 0; i < t.losses.size(); ++i) {
      const std::string expected = hex(trainings.front().losses[i]), got = hex(t.losses[i]);
      if (got != expected)
        return "The loss of step " + std::to_string(i + 1) + " is " + got + " in " + t.name +
               ", but " + expected + " in " + trainings.front().name + ".";
    }
  }
  return "";
}

/// One row a stage; each byte figure as predicted=measured.
inline void print_table(std::FILE* out, std::span<const Training> trainings) {
  std::vector<std::vector<std::string>> rows{{"stage", "final loss", "weights", "gradients",
                                              "optimizer", "slots", "sent per step",
                                              "ms per step"}};
  const auto both = [](std::size_t predicted, std::size_t measured) {
    return std::to_string(predicted) + (predicted == measured ? "=" : "!=") +
           std::to_string(measured);
  };
  for (const Training& t : trainings) {
    char loss[40], time[40];
    std::snprintf(loss, sizeof loss, "%.6f", final_loss(t));
    std::snprintf(time, sizeof time, "%.1f", t.step_ms);
    rows.push_back({t.name, loss});
    for (const Figure& f : figures_held(t))
      if (rows.back().size() < 6) rows.back().push_back(both(f.predicted, f.measured));
    rows.back().push_back(both(t.predicted_sent.total(), t.sent.total()));
    rows.back().emplace_back(time);
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      std::fprintf(out, "%s%*s", i == 0 ? "" : "  ",
                   static_cast<int>(widths[i]) * (i == 0 ? -1 : 1), row[i].c_str());
    std::fputc('\n', out);
  }
}

/// The same and more as JSON.
inline void print_json(std::ostream& out, Size ranks, std::span<const Training> trainings) {
  const auto figures = [&](const char* name, const std::vector<Figure>& all) {
    out << "      \"" << name << "\": {";
    for (const Figure& f : all)
      out << (&f == all.data() ? "\n" : ",\n") << "        \"" << f.name
          << "\": {\"predicted\": " << f.predicted << ", \"measured\": " << f.measured << "}";
    out << "\n      },\n";
  };
  const auto number = [](double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    return std::string(std::isfinite(value) ? text : "null");
  };
  out << "{\n  \"ranks\": " << ranks << ",\n  \"parameters\": " << trainings.front().parameters
      << ",\n  \"stages\": [";
  for (const Training& t : trainings) {
    out << (&t == trainings.data() ? "\n" : ",\n") << "    {\n      \"name\": \"" << t.name
        << "\",\n      \"final_loss\": " << number(final_loss(t)) << ",\n      \"losses_hex\": [";
    for (const double& loss : t.losses)
      out << (&loss == t.losses.data() ? "" : ", ") << '"' << hex(loss) << '"';
    out << "],\n";
    figures("bytes_per_rank", figures_held(t));
    figures("bytes_sent_per_step", figures_sent(t));
    out << "      \"step_ms\": " << number(t.step_ms) << "\n    }";
  }
  out << "\n  ]\n}\n";
}

}  // namespace gpt
