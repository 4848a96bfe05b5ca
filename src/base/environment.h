#pragma once
// The environment is read here and nowhere else: ZT_ISA, ZT_THREADS, and the AWS_ variables that every S3 client
// knows. Whatever else can be set is an option or a field of the plan.
#include <string>

namespace zt {

// ZT_ISA: the instruction set whose kernels to use; null if unset or empty.
const char* wanted_isa();
// ZT_THREADS as it was written; null if unset or empty. default_thread_count() in base/threads.h judges it.
const char* wanted_threads();

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION (or AWS_DEFAULT_REGION), AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL);
// empty where unset.
struct AwsEnvironment {
  std::string access_key, secret_key, session_token, region, endpoint;
};
AwsEnvironment aws_environment();

}  // namespace zt
