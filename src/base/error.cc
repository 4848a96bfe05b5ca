#include "base/error.h"

namespace zt {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::request: return 2;
    case ErrorKind::model: return 3;
    case ErrorKind::resource: return 4;
    case ErrorKind::internal: return 1;
  }
  return 1;
}

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::request: return 400;
    case ErrorKind::model: return 422;
    case ErrorKind::resource: return 503;
    case ErrorKind::internal: return 500;
  }
  return 500;
}

}  // namespace zt
