#pragma once
// Counters, gauges and histograms in Prometheus' text format.
#include <array>
#include <map>
#include <mutex>
#include <string>

namespace zt::http {

class Metrics {
 public:
  // `labels` as they are written: route="/v1/videos",status="200". Any thread.
  void add(const std::string& name, const std::string& labels = "", double by = 1);
  void set(const std::string& name, const std::string& labels, double value);
  void observe(const std::string& name, const std::string& labels, double seconds);
  std::string text() const;

  struct Family {
    const char *name, *type, *help;
  };

 private:
  static constexpr std::array<double, 12> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30};
  struct Histogram {
    std::array<double, kBounds.size()> below{};
    double sum = 0, count = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, double>> values_;
  std::map<std::string, std::map<std::string, Histogram>> histograms_;
};

// Every metric of the server with its help, as Markdown for docs/server.md.
std::string metrics_markdown();

}  // namespace zt::http
