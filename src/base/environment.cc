#include "base/environment.h"

#include <cstdlib>
#include <initializer_list>

namespace zt {

namespace {
const char* nonempty(const char* text) { return text && *text ? text : nullptr; }
}  // namespace

const char* wanted_isa() { return nonempty(std::getenv("ZT_ISA")); }
const char* wanted_threads() { return nonempty(std::getenv("ZT_THREADS")); }

AwsEnvironment aws_environment() {
  auto first = [](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (const char* value = nonempty(std::getenv(name))) return value;
    return "";
  };
  return {first({"AWS_ACCESS_KEY_ID"}), first({"AWS_SECRET_ACCESS_KEY"}), first({"AWS_SESSION_TOKEN"}), first({"AWS_REGION", "AWS_DEFAULT_REGION"}),
          first({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})};
}

}  // namespace zt
