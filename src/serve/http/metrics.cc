#include "serve/http/metrics.h"

#include <fmt/format.h>

namespace zt::http {

namespace {

constexpr Metrics::Family kFamilies[] = {
    {"zoetrope_build_info", "gauge", "1, with version, model and plan as labels"},
    {"zoetrope_http_requests_total", "counter", "requests answered, by method, route and status"},
    {"zoetrope_http_request_seconds", "histogram", "time from the whole request to its answer's first byte, by route"},
    {"zoetrope_http_connections", "gauge", "connections open now"},
    {"zoetrope_http_connections_total", "counter", "connections accepted"},
    {"zoetrope_http_connections_rejected_total", "counter", "connections refused because too many were open"},
    {"zoetrope_http_timeouts_total", "counter", "connections ended because a header or body came too slowly"},
    {"zoetrope_http_body_bytes", "gauge", "bytes of request bodies that are held or being read"},
    {"zoetrope_http_pending", "gauge", "requests that wait for a thread or run on one"},
    {"zoetrope_event_streams", "gauge", "open streams of progress"},
    {"zoetrope_rejections_total", "counter", "requests refused, by the code of their error"},
    {"zoetrope_jobs", "gauge", "jobs in the store, by status"},
    {"zoetrope_queue_oldest_seconds", "gauge", "age of the job that waits longest"},
    {"zoetrope_jobs_finished_total", "counter", "jobs that this server saw end, by status"},
    {"zoetrope_job_seconds_total", "counter", "seconds of work in completed jobs"},
    {"zoetrope_clip_seconds_total", "counter", "seconds of finished clips; job seconds over clip seconds is the ratio to real time"},
    {"zoetrope_stage_seconds_total", "counter", "seconds of work in completed jobs, by stage"},
    {"zoetrope_cache_hits_total", "counter", "values that were kept from earlier requests, by cache (prompt, condition, adaln)"},
    {"zoetrope_cache_misses_total", "counter", "values that had to be computed, by cache"},
    {"zoetrope_cache_bytes", "gauge", "bytes that are kept, by cache"},
    {"zoetrope_webhooks_total", "counter", "deliveries of webhooks, by outcome (taken, put_off, given_up)"},
    {"zoetrope_predicted_wait_seconds", "gauge", "predicted wait of a job that came now"},
    {"zoetrope_draining", "gauge", "1 while the server ends"},
    {"process_resident_memory_bytes", "gauge", "memory of this process"},
    {"process_start_time_seconds", "gauge", "Unix time of the start"},
};

std::string series(const std::string& name, const std::string& labels, const std::string& more = "") {
  const std::string both = labels.empty() || more.empty() ? labels + more : labels + "," + more;
  return both.empty() ? name : name + "{" + both + "}";
}

}  // namespace

void Metrics::add(const std::string& name, const std::string& labels, double by) {
  const std::lock_guard lock(mutex_);
  values_[name][labels] += by;
}

void Metrics::set(const std::string& name, const std::string& labels, double value) {
  const std::lock_guard lock(mutex_);
  values_[name][labels] = value;
}

void Metrics::observe(const std::string& name, const std::string& labels, double seconds) {
  const std::lock_guard lock(mutex_);
  Histogram& h = histograms_[name][labels];
  for (size_t i = 0; i < kBounds.size(); ++i) h.below[i] += seconds <= kBounds[i];
  h.sum += seconds, h.count += 1;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const Family& f : kFamilies) {
    const auto values = values_.find(f.name);
    const auto histograms = histograms_.find(f.name);
    if (values == values_.end() && histograms == histograms_.end()) continue;
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", f.name, f.help, f.name, f.type);
    if (values != values_.end())
      for (const auto& [labels, value] : values->second) out += fmt::format("{} {:.16g}\n", series(f.name, labels), value);
    if (histograms == histograms_.end()) continue;
    const std::string name = f.name;
    for (const auto& [labels, h] : histograms->second) {
      for (size_t i = 0; i < kBounds.size(); ++i)
        out += fmt::format("{} {:g}\n", series(name + "_bucket", labels, fmt::format("le=\"{:g}\"", kBounds[i])), h.below[i]);
      out += fmt::format("{} {:g}\n{} {:.16g}\n{} {:g}\n", series(name + "_bucket", labels, "le=\"+Inf\""), h.count, series(name + "_sum", labels), h.sum,
                         series(name + "_count", labels), h.count);
    }
  }
  return out;
}

std::string metrics_markdown() {
  std::string out = "| metric | type | meaning |\n|---|---|---|\n";
  for (const Metrics::Family& f : kFamilies) out += fmt::format("| `{}` | {} | {} |\n", f.name, f.type, f.help);
  return out;
}

}  // namespace zt::http
