"""Builds the host for a target, against a libpython for it."""

import os
import re
import shutil
import subprocess

from . import targets
from .targets import HERE, Missing, Refused, install, output_of

FOLDER = HERE / "target/devices"


def prepare_tools(target):
    """Installs Rust's standard library for the target, and GNU's compiler, where they are missing."""
    installed = output_of("rustup", "target", "list", "--installed").split()
    if target.triple not in installed:
        try:
            output_of("rustup", "target", "add", target.triple)
        except Refused as refused:
            raise Missing(f"no Rust for {target.triple}: {refused}") from refused
    install(target.binutils + "gcc", target.compiler_package)


def missing_names(archive, nm):
    """The names of CPython's own that a static libpython uses and does not have."""
    used, defined = set(), set()
    for line in output_of(nm, "-P", archive, stderr=subprocess.DEVNULL).splitlines():
        words = line.split()
        if len(words) >= 2 and re.match(r"_?Py|python_|_*Hacl", words[0]):
            (used if words[1] in "Uwv" else defined).add(words[0])
    return sorted(used - defined)


def static_archive(root, target):
    """The static libpython, which is not position-independent."""
    folder, name = root.configuration, f"python{root.version}"
    archive = folder / f"lib{name}.a"
    if not archive.exists():
        raise Refused(f"--static: no static libpython in {folder}")
    missing = missing_names(archive, target.binutils + "nm")
    if missing:
        raise Refused(
            f"--static: {len(missing)} functions are not in {archive}, such as {missing[0]}; expected --from-source, "
            "or a build without --static"
        )
    return folder, name


def describe_python(root, target, static):
    """Writes the file of PYO3_CONFIG_FILE for the target's libpython."""
    settings = root.settings()
    flags = ("Py_DEBUG", "Py_REF_DEBUG", "Py_TRACE_REFS", "Py_GIL_DISABLED")
    folder, name = static_archive(root, target) if static else (root.libraries[0], f"python{root.version}")
    values = {
        "implementation": "CPython",
        "version": root.version,
        "shared": "false" if static else "true",
        "lib_name": name,
        "lib_dir": folder,
        "pointer_width": settings["SIZEOF_VOID_P"] * 8,
        "build_flags": ",".join(flag for flag in flags if settings.get(flag)),
    }
    arguments = []
    if static:
        # As tools/build-static: build.rs links the archive, once and whole.
        values["suppress_build_script_link_lines"] = "true"
        arguments = root.link_arguments()
    lines = [f"{key}={value}" for key, value in values.items()]
    lines += [f"extra_build_script_line=cargo:rustc-link-arg={argument}" for argument in arguments]
    path = FOLDER / f"pyo3-{kind_of(root, target, static)}.txt"
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    # pyo3 is built anew after each change of the file's date.
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def environment(root, target, static, further):
    """The variables of a cargo that builds for the target."""
    prepare_tools(target)
    config = describe_python(root, target, static)
    name = target.triple.replace("-", "_")
    # As Debian's own interpreter: no address depends on where a static one lies, so that the start writes none.
    rust = ["-Crelocation-model=static"] if static else []
    if target.is_static:
        # Rust's target brings musl, and links it by any compiler.
        of_compiler = {f"CC_{name}": str(root.compiler)}
    else:
        flags = targets.compiler_flags(root)
        rust += [f"-Clink-arg={flag}" for flag in flags]
        of_compiler = {
            "PYHOST_RUN_PATH": "$ORIGIN/../lib",
            f"CC_{name}": target.binutils + "gcc",
            # A part of Debian's Python.h is in a folder that only the system's own compiler knows.
            f"CFLAGS_{name}": " ".join([*flags, *target.macros, "-idirafter", str(root.headers.parent)]),
        }
    left_out = ["RUSTFLAGS", *(f"PYHOST_BAKED_{variable}" for variable in ("CAP", "REGION", "RETAIN"))]
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    return variables | further | of_compiler | {
        "PYO3_CONFIG_FILE": str(config),
        "PYHOST_PYTHON_INCLUDE": str(root.headers),
        "CARGO_TARGET_DIR": str(cache(root, target, static)),
        target.variable("RUSTFLAGS"): " ".join(rust),
        target.variable("LINKER"): target.binutils + "gcc",
        f"AR_{name}": target.binutils + "ar",
        "AR": target.binutils + "ar",
        "LD": target.binutils + "ld",
        "OBJCOPY": target.binutils + "objcopy",
        "NM": target.binutils + "nm",
    }  # fmt: skip


def kind_of(root, target, static):
    """The name of a kind of build."""
    kind = "-musl-static" if target.is_static else "-source" if root.is_from_source else "-static" if static else ""
    return f"{target.processor}-{root.version}{kind}"


def cache(root, target, static):
    """Cargo's folder. One for each kind, or each build would begin anew after one of another kind."""
    return FOLDER / "build" / kind_of(root, target, static)


def build(root, target, static, profile, further):
    """Builds `pyhost` and `pyhostctl`; their folder. `further`: variables of the host's build."""
    variables = environment(root, target, static, further)
    command = ["cargo", "build", "--quiet", "--locked", "--no-default-features", "--target", target.triple]
    command += ["--profile", profile, "-p", "pyhost", "--bin", "pyhost", "--bin", "pyhostctl"]
    if subprocess.run(command, cwd=HERE, env=variables, stdout=2).returncode:
        raise Refused("cargo build: failed")
    built = cache(root, target, static) / target.triple / {"dev": "debug"}.get(profile, profile)
    result = FOLDER / kind_of(root, target, static)
    result.mkdir(exist_ok=True)
    for program in ("pyhost", "pyhostctl"):
        shutil.copy2(built / program, result / program)
    return result
