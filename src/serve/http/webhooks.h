#pragma once
// Tells an address that a job has ended: signed as Standard Webhooks (standardwebhooks.com) say, which OpenAI's clients verify, and repeated
// until it is taken. What is owed stands in the store, so that neither a kill nor a restart loses it.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/http/metrics.h"
#include "serve/store/job_store.h"

namespace zt::http {

struct WebhookOptions {
  std::vector<std::string> prefixes;   // of addresses that requests may name; the operator answers for them
  std::string secret;                  // bytes of the HMAC's key
};

// "whsec_" and base64, or any text, without the end of its line. Errors (kind request): unreadable, empty.
std::string read_webhook_secret(const std::string& path);
// "v1," and the base64 of HMAC-SHA256 over "ID.TIMESTAMP.BODY".
std::string webhook_signature(const std::string& secret, const std::string& id, int64_t timestamp, const std::string& body);
bool webhook_allowed(const WebhookOptions& options, const std::string& url);

class Webhooks {
 public:
  Webhooks(JobStore& store, const WebhookOptions& options, Metrics& metrics);
  ~Webhooks();

 private:
  void run();
  void deliver(const Job& job);

  JobStore& store_;
  const WebhookOptions& options_;
  Metrics& metrics_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace zt::http
