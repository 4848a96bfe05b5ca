#!/usr/bin/env python3
"""Plants a breach of each law of tools/check in a small tree of its own and wants exactly that one reported. Needs Python, git and g++."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check"
ROOMS = {"base": "", "tensor": "DEPS base", "kernels": "DEPS tensor", "models": "DEPS nn text", "pipeline": "DEPS models", "serve": "DEPS pipeline media"}
LONG = "int f() {\n" + "  g();\n" * 130 + "}\n"

# (name, file, its text, part of the one line that must be reported; None: nothing may be)
PLANTED = [
    ("a clean tree", "src/base/b.h", "#pragma once\n", None),
    ("an include upwards", "src/base/b.cc", '#include "tensor/t.h"\n', "base may not include"),
    ("an include sideways", "src/kernels/k.cc", '#include "formats/f.h"\n', "kernels may not include"),
    ("a jump over the law", "src/pipeline/p.cc", '#include "media/m.h"\n', "pipeline may not include"),
    ("what lies below is allowed", "src/pipeline/p.cc", '#include "base/b.h"\n#include "tensor/t.h"\n', None),
    ("a sibling model", "src/models/minimax_h3/m.cc", '#include "models/qwen3_vl/q.h"\n', "sibling"),
    ("a role is no sibling", "src/models/minimax_h3/m.cc", '#include "models/roles.h"\n', None),
    ("a relative include", "src/base/b.cc", '#include "../tensor/t.h"\n', "written from src/"),
    ("an include from nowhere", "src/base/b.cc", '#include "elsewhere/t.h"\n', "in no room"),
    ("DEPS beyond the law", "src/kernels/CMakeLists.txt", "zt_room(kernels DEPS tensor nn)\n", "kernels may not depend on nn"),
    ("a loose file", "src/extra.cc", "\n", "loose in src/"),
    ("an unknown room", "src/magic/m.cc", "\n", "a room that docs/design.md does not have"),
    ("a folder for anything", "src/models/utils/u.cc", "\n", "no common, no utils"),
    ("a long file", "src/base/b.cc", "\n" * 801, "801 lines"),
    ("a long function", "src/base/b.cc", LONG, "a function of 132 lines"),
    ("a long kernel is allowed", "src/kernels/k.cc", LONG, None),
    ("the environment outside base", "src/kernels/k.cc", 'auto x = getenv("ZT_ISA");\n', "read in base/ only"),
    ("another variable", "src/base/b.cc", 'auto x = getenv("ZT_MAGIC");\n', "ZT_MAGIC is read"),
    ("FFmpeg outside media", "src/pipeline/p.cc", "#include <libavcodec/avcodec.h>\n", "belongs to media alone"),
    ("HTTP outside serve", "src/pipeline/p.cc", "#include <httplib.h>\n", "belongs to serve alone"),
    ("JSON in pipeline", "src/pipeline/p.cc", '#include "base/json.h"\n', "pipeline knows no JSON"),
    ("the JSON library outside base", "src/serve/s.cc", "#include <nlohmann/json.hpp>\n", "belongs to base alone"),
    ("no pragma once", "src/base/b.h", "\nint x;\n", "#pragma once"),
    ("a place of this machine", "docs/a.md", "see /wor" + "k/shared/x\n", "names a place of one machine"),
    ("a tab", "src/base/b.cc", "\tint x;\n", "a tab"),
    ("a wide line", "src/base/b.cc", "// " + "x" * 200 + "\n", "203 columns"),
    ("no newline at the end", "src/base/b.cc", "int x;", "no newline"),
    ("camel case", "src/base/BigName.cc", "\n", "snake_case"),
]


def tree(folder):
    for room, deps in ROOMS.items():
        (folder / "src" / room).mkdir(parents=True)
        (folder / "src" / room / "CMakeLists.txt").write_text(f"zt_room({room} {deps})\n")
    subprocess.run(["git", "init", "-q", folder], check=True)


def run(folder, *args):
    subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
    r = subprocess.run([sys.executable, CHECK, "--root", folder, *args], capture_output=True, text=True)
    return r.returncode, r.stdout.strip().splitlines()


def verdict(name, part, code, lines):
    if part is None:
        good = code == 0
    else:
        good = code == 1 and len(lines) == 1 and part in lines[0]
    if not good:
        print(f"{name}: wanted {'nothing' if part is None else repr(part)}, got exit code {code} and {lines}")
    return good


def symbols(folder):
    """A unit for one instruction set that leaks an inline function of the standard library."""
    bad = 0
    for name, text, part in (("one symbol", "namespace { int f(int x) { return x + 1; } }\nint table(int x) { return f(x); }\n", None),
                             ("two symbols", "int table() { return 1; }\nint other() { return 2; }\n", "exports 2 symbols"),
                             ("a weak symbol", "inline int shared(int x) { return x * 3; }\nint (*keep)(int) = shared;\n", "exports 2 symbols")):
        source = folder / "src/kernels/cpu/avx2.cc"
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        out = folder / "out/kernels/cpu"
        out.mkdir(parents=True, exist_ok=True)
        subprocess.run(["g++", "-c", source, "-o", out / "avx2.cc.o"], check=True)
        bad += not verdict(name, part, *run(folder, "--build", folder / "out"))
    return bad


def main():
    failed = 0
    for name, path, text, part in PLANTED:
        with tempfile.TemporaryDirectory() as d:
            folder = Path(d).resolve()
            tree(folder)
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            failed += not verdict(name, part, *run(folder))
    if shutil.which("g++") and shutil.which("nm"):
        with tempfile.TemporaryDirectory() as d:
            tree(Path(d).resolve())
            failed += symbols(Path(d).resolve())
    print(f"{len(PLANTED) + 3 - failed} laws hold, {failed} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
