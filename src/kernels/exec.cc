#include "kernels/exec.h"

#include <array>
#include <cstring>

#include "base/environment.h"
#include "kernels/ops.h"

namespace zt {

namespace {

struct Tables {
  std::array<Ops, 4> ops{};
  int count = 0;             // tables this machine can run; each builds on the one before

  Tables() {
    struct Source { const char* name; void (*fill)(Ops&); };
    constexpr Source sources[] = {{"ref", fill_ref}, {"avx2", fill_avx2}, {"avx512", fill_avx512}, {"amx", fill_amx}};
    for (const Source& s : sources) {
      if (count > 0 && !isa_available(s.name)) return;
      if (count > 0) ops[static_cast<size_t>(count)] = ops[static_cast<size_t>(count - 1)];
      Ops& table = ops[static_cast<size_t>(count++)];
      s.fill(table);
      table.name = s.name;
    }
  }
};

const Tables& tables() {
  static const Tables t;
  return t;
}

}  // namespace

const Ops& ops_by_name(const char* name) {
  std::string known;
  for (int i = 0; i < tables().count; ++i) {
    const Ops& table = tables().ops[static_cast<size_t>(i)];
    if (!std::strcmp(table.name, name)) return table;
    known += (i ? ", " : "") + std::string(table.name);
  }
  fail(ErrorKind::request, "instruction set: found '{}', wanted one that this machine can run ({}); set ZT_ISA to one of them or unset it",
       name, known);
}

const Ops& select_ops() {
  if (const char* wanted = wanted_isa()) return ops_by_name(wanted);
  return tables().ops[static_cast<size_t>(tables().count - 1)];
}

const char* ops_name(const Ops& ops) { return ops.name; }

std::vector<const char*> available_ops() {
  std::vector<const char*> names;
  for (int i = 0; i < tables().count; ++i) names.push_back(tables().ops[static_cast<size_t>(i)].name);
  return names;
}

}  // namespace zt
