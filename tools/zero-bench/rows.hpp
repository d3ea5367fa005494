// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What was measured: rows of a table, beside the limit that was measured with each. Includes
// Google Benchmark and headers beside it.
#pragma once

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace zero_bench {

/// One measurement. `ratio` is 1 at the limit and smaller below it; 0 where there is no limit.
struct Row {
  std::string name;
  double seconds = 0, value = 0;
  std::string unit;
  double limit = 0, ratio = 0;
  bool is_time() const { return unit == "ns" || unit == "us" || unit == "ms"; }
};
struct Part {
  std::string name, title, limit;  // what the limit is
  std::vector<Row> rows{};
};

template <class... Values>
std::string format(const char* how, Values... values) {
  char text[400];
  std::snprintf(text, sizeof text, how, values...);
  return text;
}
/// Three digits that count.
inline std::string digits(double value) {
  return format(value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : value >= 1 ? "%.2f" : "%.3f", value);
}
inline std::string time(double seconds) {
  return seconds >= 1      ? digits(seconds) + " s "
         : seconds >= 1e-3 ? digits(seconds * 1e3) + " ms"
         : seconds >= 1e-6 ? digits(seconds * 1e6) + " us"
                           : digits(seconds * 1e9) + " ns";
}
inline std::string size(double bytes) {
  return bytes >= 1 << 20 ? format("%.0f MiB", bytes / (1 << 20))
                          : format("%.0f KiB", bytes / (1 << 10));
}

inline void print_header(std::FILE* out, const Part& part) {
  std::fprintf(out, "\n%s; limit: %s\n%-40s %10s %16s %10s %9s\n", part.title.c_str(),
               part.limit.c_str(), "", "time", "reached", "limit", "of limit");
}
inline void print_row(std::FILE* out, const Row& row) {
  std::fprintf(out, "%-40s %10s %9s %-6s %10s %9s\n", row.name.c_str(), time(row.seconds).c_str(),
               digits(row.value).c_str(), row.unit.c_str(),
               row.limit > 0 ? digits(row.limit).c_str() : "-",
               row.ratio > 0 ? digits(row.ratio).c_str() : "-");
  std::fflush(out);
}
inline std::string json(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}
inline void print_json(std::ostream& out, const std::vector<Part>& parts, std::size_t ranks,
                       bool quick) {
  out << "{\"ranks\": " << ranks << ", \"quick\": " << (quick ? "true" : "false")
      << ", \"compiler\": " << json(__VERSION__) << ",\n \"parts\": [";
  const char* next_part = "\n";
  for (const Part& part : parts) {
    out << next_part << "  {\"part\": " << json(part.name) << ", \"title\": " << json(part.title)
        << ", \"limit\": " << json(part.limit) << ", \"rows\": [";
    next_part = ",\n";
    const char* next_row = "\n";
    for (const Row& row : part.rows) {
      out << next_row << "    {\"name\": " << json(row.name) << ", \"unit\": " << json(row.unit)
          << format(", \"seconds\": %.6g, \"value\": %.6g, \"limit\": %.6g, \"ratio\": %.4g}",
                    row.seconds, row.value, row.limit, row.ratio);
      next_row = ",\n";
    }
    out << "]}";
  }
  out << "\n ]}\n";
}

/// One run of a benchmark: its name without what says how time was taken, and its counters.
struct Measured {
  std::string name;
  double seconds = 0;
  std::map<std::string, double> counters{};
  double operator[](const char* counter) const {
    const auto found = counters.find(counter);
    return found == counters.end() ? 0 : found->second;
  }
  /// The number after "key:" in the name.
  double argument(const std::string& key) const {
    const std::size_t at = name.find(key + ':');
    return at == name.npos ? 0 : std::stod(name.substr(at + key.size() + 1));
  }
  std::string stem() const { return name.substr(0, name.find('/')); }
};

/// Makes rows of what Google Benchmark runs, and prints each when it is there. On a terminal it
/// says meanwhile that it measures.
class Reporter : public benchmark::BenchmarkReporter {
 public:
  Reporter(Part& part, std::function<Row(const Measured&)> row, bool shows)
      : part_(part), row_(std::move(row)), shows_(shows) {
    progress("measuring...");
  }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter() override { progress(""); }

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      Measured measured{run.benchmark_name()};
      for (const char* how : {"/iterations:", "/manual_time", "/real_time", "/process_time"}) {
        const std::size_t at = measured.name.find(how);
        if (at != measured.name.npos) measured.name.resize(at);
      }
      if (const std::string error = error_of(run); !error.empty()) {
        error_ = measured.name + ": " + error;
        continue;
      }
      measured.seconds =
          run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit);
      for (const auto& [name, counter] : run.counters) measured.counters[name] = counter.value;
      part_.rows.push_back(row_(measured));
      progress("");
      if (shows_) print_row(stdout, part_.rows.back());
      progress("measuring...");
    }
  }
  const std::string& error() const { return error_; }

 private:
  /// What Google Benchmark calls an error, in its versions before 1.8 and since.
  template <class AnyRun>
  static std::string error_of(const AnyRun& run) {
    if constexpr (requires { run.error_occurred; }) {
      return run.error_occurred ? run.error_message : std::string();
    } else {
      return static_cast<int>(run.skipped) != 0 ? run.skip_message : std::string();
    }
  }
  void progress(const char* text) const {
    if (shows_ && isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K%s", text);
  }

  Part& part_;
  std::function<Row(const Measured&)> row_;
  bool shows_;
  std::string error_;
};

}  // namespace zero_bench
