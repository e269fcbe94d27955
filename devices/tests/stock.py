"""Links CPython without the host, otherwise in the same way: what the host's size and resident size are compared with."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
from toolchain import targets  # noqa: E402


def link(root, target, static, folder):
    """Links `bin/python3` beside the host of a device folder."""
    program, output = HERE / "embed-tests/c/python.c", ["-o", folder / "bin/python3"]
    archive = root.configuration / f"libpython{root.version}.a"
    if target.is_static:
        command = [root.compiler, "-static", "-no-pie", "-Wl,--gc-sections", program, archive, "-lm"]
    else:
        command = [target.binutils + "gcc", *targets.compiler_flags(root), "-Wl,-rpath,$ORIGIN/../lib"]
        if static:
            # As CPython's own build: all of its objects, which extension modules may need.
            command += ["-no-pie", "-Wl,--export-dynamic", program, "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]
            command += [*root.link_arguments(), "-ldl", "-lutil", "-lpthread", "-lm"]
        else:
            command += [program, folder / f"lib/libpython{root.version}.so.1.0", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
    targets.output_of(*command, "-O2", "-s", *output)
