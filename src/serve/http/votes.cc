// Blind comparisons: a person saw two clips of one request, made in two ways, without being told which is which.
#include <cmath>

#include "serve/http/body.h"
#include "serve/http/service.h"

namespace zt::http {

namespace {

constexpr double kZ = 1.959964;   // 95 %

// Wilson's interval of a share.
std::pair<double, double> interval(double share, double n) {
  const double middle = share + kZ * kZ / (2 * n), spread = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n)), whole = 1 + kZ * kZ / n;
  return {std::max(0.0, (middle - spread) / whole), std::min(1.0, (middle + spread) / whole)};
}

double rounded(double x) { return std::round(x * 10000) / 10000; }

Json count_json(const VoteCount& c) {
  const auto n = static_cast<double>(c.a_better + c.b_better + c.same);
  const double share = (static_cast<double>(c.a_better) + 0.5 * static_cast<double>(c.same)) / n;
  const auto [low, high] = interval(share, n);
  return {{"a", c.a},       {"b", c.b},
          {"votes", c.a_better + c.b_better + c.same},
          {"a_better", c.a_better}, {"b_better", c.b_better}, {"same", c.same},
          {"a_share", rounded(share)}, {"low", rounded(low)}, {"high", rounded(high)},
          {"verdict", low > 0.5 ? "a" : high < 0.5 ? "b" : "none"}};
}

// A finished video of the caller, as its creation echoed it.
Json finished(Service& s, const Request& r, const Json& fields, const char* name) {
  const Json id = fields.value(name, Json());
  if (!id.is_string()) refuse(name, "{} is missing or no id of a video", name);
  const Job job = find_job(s, r, id.get<std::string>());
  if (job.status != JobStatus::completed) throw HttpError(400, "invalid_value", name, fmt::format("{} is no finished video", name));
  const Json request = Json::parse(job.request, nullptr, false);
  return request.is_object() ? request : Json::object();
}

std::string way(const Json& request) { return fmt::format("plan {}, {} evaluations", request.value("plan", "?"), request.value("evaluations", int64_t{0})); }

}  // namespace

Response Service::vote(Request& r) {
  const Body body = read_body(r);
  for (const auto& [key, value] : body.fields.items())
    if (key != "a" && key != "b" && key != "choice") throw HttpError(400, "unknown_field", key.substr(0, 120), "a vote takes a, b and choice alone");
  const Json a = finished(*this, r, body.fields, "a"), b = finished(*this, r, body.fields, "b"), choice = body.fields.value("choice", Json());
  if (choice != "a" && choice != "b" && choice != "same") refuse("choice", "choice is missing or none of a, b and same");
  for (const char* key : {"prompt", "seed", "size", "frames", "task"})
    if (a.value(key, Json()) != b.value(key, Json())) refuse("b", "a and b are of different requests: their {} differs", key);
  Vote v{r.caller, way(a), way(b), choice};
  if (v.a == v.b) refuse("b", "a and b were made alike ({}): there is nothing to compare", v.a);
  store.add_vote(v);
  return votes(r);
}

Response Service::votes(const Request& r) {
  Json data = Json::array();
  for (const VoteCount& c : store.votes(owner(r))) data.push_back(count_json(c));
  return json_response({{"object", "list"}, {"data", data}});
}

}  // namespace zt::http
