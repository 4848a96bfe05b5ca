#include "serve/http/webhooks.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "serve/http/body.h"
#include "serve/http/url_fetch.h"

namespace zt::http {

namespace {

constexpr int kMaxAttempts = 14;                 // about a day with the waits below
constexpr int64_t kHoldMs = 120000;              // for which a delivery belongs to one server

int64_t wait_ms(int attempts) { return std::min<int64_t>(int64_t{2000} << std::min(attempts, 12), 3 * 3600 * 1000); }

}  // namespace

std::string read_webhook_secret(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(f)), {});
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.size() < 16) fail(ErrorKind::request, "--webhook-secret {}: holds {} bytes; wanted a file with a secret of 16 or more", path, text.size());
  if (!text.starts_with("whsec_")) return text;
  auto bytes = decode_base64(std::string_view(text).substr(6));
  if (!bytes || bytes->empty()) fail(ErrorKind::request, "--webhook-secret {}: what follows whsec_ is no base64", path);
  return std::move(*bytes);
}

std::string webhook_signature(const std::string& secret, const std::string& id, int64_t timestamp, const std::string& body) {
  const std::string text = fmt::format("{}.{}.{}", id, timestamp, body);
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
  unsigned char base64[2 * EVP_MAX_MD_SIZE];
  const int n = EVP_EncodeBlock(base64, mac, static_cast<int>(size));
  return "v1," + std::string(reinterpret_cast<const char*>(base64), static_cast<size_t>(n));
}

bool webhook_allowed(const WebhookOptions& options, const std::string& url) {
  // "@" could make a prefix the user name of another host.
  return url.size() <= 2048 && url.find('@') == std::string::npos && url.find('\\') == std::string::npos &&
         std::any_of(options.prefixes.begin(), options.prefixes.end(), [&](const std::string& p) { return url.starts_with(p); });
}

Webhooks::Webhooks(JobStore& store, const WebhookOptions& options, Metrics& metrics) : store_(store), options_(options), metrics_(metrics) {
  thread_ = std::thread([this] { run(); });
}

Webhooks::~Webhooks() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Webhooks::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    bool any = false;
    try {
      for (const Job& job : store_.due_webhooks(4, kHoldMs)) deliver(job), any = true;
    } catch (const Error&) {
      // the store is away: what is owed stays owed
    }
    lock.lock();
    if (!any) wake_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; });
  }
}

void Webhooks::deliver(const Job& job) {
  const Json owed = Json::parse(job.webhook, nullptr, false);
  const std::string url = owed.is_object() ? owed.value("url", "") : "";
  const int64_t now = store_.now_ms() / 1000;
  const std::string id = "evt_" + job.id;   // the same at each attempt, so that a receiver can tell
  const bool completed = job.status == JobStatus::completed;
  const Json event{{"id", id}, {"object", "event"}, {"created_at", job.ended_ms / 1000}, {"type", completed ? "video.completed" : "video.failed"},
                   {"data", {{"id", job.id}}}};
  const std::string body = event.dump();
  const bool allowed = webhook_allowed(options_, url);   // the operator may have changed the prefixes since it was accepted
  bool taken = false;
  if (allowed) {
    try {
      const long status = post_url(url, body,
                                   {"Content-Type: application/json", "webhook-id: " + id, fmt::format("webhook-timestamp: {}", now),
                                    "webhook-signature: " + webhook_signature(options_.secret, id, now, body)});
      taken = status >= 200 && status < 300;
    } catch (const Error&) {
    }
  }
  const bool over = !allowed || job.webhook_attempts >= kMaxAttempts;
  metrics_.add("zoetrope_webhooks_total", taken ? "outcome=\"taken\"" : over ? "outcome=\"given_up\"" : "outcome=\"put_off\"");
  store_.settle_webhook(job.id, taken || over, store_.now_ms() + wait_ms(job.webhook_attempts));
}

}  // namespace zt::http
