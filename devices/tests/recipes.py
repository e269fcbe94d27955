#!/usr/bin/env python3
"""Checks devices/packaging: `recipes.py [--buildroot FOLDER] [--yocto FOLDER]`.

Without an option it runs the commands of the Buildroot package by hand, for aarch64, with Debian's compiler and CPython in
Buildroot's place (cargo-package.mk), and compares the recipe's flags with devices/toolchain. With a checkout of Buildroot, or of
OpenEmbedded-Core that has bitbake in its folder, these read the package and the recipe themselves; both need no download for
that. The last line says how many checks passed and failed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
from counting import check, closing  # noqa: E402
from toolchain import build, targets  # noqa: E402

TREE = HERE / "devices/packaging/buildroot"
LAYER = HERE / "devices/packaging/yocto/meta-pyhost"
SCRATCH = HERE / "target/packaging"
PYTHON = "3.11"
TARGET = "aarch64-unknown-linux-gnu"

def run(*command, cwd=HERE, env=None):
    return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env=env)  # fmt: skip


def buildroot_by_hand():
    """Builds and installs by the package's own commands, into a folder that stands for the image's."""
    target = targets.find(TARGET)
    root = targets.root_of_target(PYTHON, target)
    build.prepare_tools(target)
    image = SCRATCH / "image"
    shutil.rmtree(image, ignore_errors=True)
    # Buildroot has the libraries in one folder, where pyo3 looks for them.
    staging = SCRATCH / "staging"
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "usr/include").mkdir(parents=True)
    (staging / "usr/include" / root.headers.name).symlink_to(root.headers)
    (staging / "usr/lib").mkdir()
    for library in root.libraries[0].glob("libpython*"):
        (staging / "usr/lib" / library.name).symlink_to(library)
    (staging / "usr/lib" / root.standard_library.name).mkdir()
    shutil.copy(min(root.standard_library.glob("_sysconfigdata__*.py")), staging / "usr/lib" / root.standard_library.name)
    flags = [*targets.compiler_flags(root), f"-idirafter{root.headers.parent}"]
    variables = {
        "BR2_EXTERNAL_PYHOST_PATH": TREE, "BUILD_DIR": HERE, "STAGING_DIR": staging, "TARGET_DIR": image,
        "RUSTC_TARGET_NAME": TARGET, "CROSS": target.binutils, "FLAGS": " ".join(flags), "PYTHON3_VERSION_MAJOR": PYTHON,
        "BR2_PACKAGE_PYHOST_CAP": '"14M"', "BR2_PACKAGE_PYHOST_REGION": '""', "BR2_PACKAGE_PYHOST_RETAIN": '"small"',
        "BR2_PACKAGE_PYHOST_CTL": "y",
    }  # fmt: skip
    stub = pathlib.Path(__file__).with_name("cargo-package.mk")
    env = {**os.environ, "CARGO_TARGET_DIR": ""}
    del env["CARGO_TARGET_DIR"]
    made = run("make", "-f", stub, *(f"{name}={value}" for name, value in variables.items()), env=env)
    check("the package's commands build and install", made.returncode == 0, made.stdout[-2000:])
    for name in ("pyhost", "pyhostctl"):
        program = image / "usr/bin" / name
        head = run("readelf", "--file-header", program).stdout
        check(f"{name} is in the image, for the target", "AArch64" in head, head)
    needed = run("readelf", "--dynamic", image / "usr/bin/pyhost").stdout
    check("pyhost needs the image's libpython", f"[libpython{PYTHON}.so.1.0]" in needed, needed)
    check("and looks for it where the loader does", "RPATH" not in needed and "RUNPATH" not in needed, needed)


def flags_agree():
    """What mimalloc must be compiled with is in three places, which cannot share a file."""
    macros = set(targets.find("armv7-unknown-linux-gnueabihf").macros)
    for path in (HERE / "src/heap/build.rs", TREE / "package/pyhost/pyhost.mk", LAYER / "recipes-devtools/pyhost/pyhost_git.bb"):
        found = set(re.findall(r"-DMI_\w+=\d", path.read_text()))
        check(f"{path.relative_to(HERE)} has the macros of devices/toolchain", found == macros, found)
    text = (HERE / "LICENSE").read_bytes()
    sum_of = run("md5sum", HERE / "LICENSE").stdout.split()[0]
    recipe = (LAYER / "recipes-devtools/pyhost/pyhost_git.bb").read_text()
    check("the recipe has the sum of the licence", f"md5={sum_of}" in recipe and text, sum_of)


def buildroot_itself(folder):
    """Has Buildroot read the tree: its configuration, and its facts of the package."""
    output = SCRATCH / "buildroot"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    wanted = ["BR2_aarch64=y", "BR2_TOOLCHAIN_EXTERNAL=y", "BR2_TOOLCHAIN_EXTERNAL_BOOTLIN=y", "BR2_PACKAGE_PYTHON3=y"]
    wanted += ["BR2_PACKAGE_PYHOST=y", 'BR2_PACKAGE_PYHOST_CAP="14M"', 'BR2_PACKAGE_PYHOST_RETAIN="small"']
    (output / "defconfig").write_text("\n".join(wanted) + "\n")
    make = ["make", "-C", folder, f"O={output}", f"BR2_EXTERNAL={TREE}"]
    configured = run(*make, f"BR2_DEFCONFIG={output}/defconfig", "defconfig")
    check("Buildroot reads the tree", configured.returncode == 0, configured.stdout[-1000:])
    config = (output / ".config").read_text() if (output / ".config").exists() else ""
    for line in wanted[-3:]:
        check(f"its configuration has {line}", f"\n{line}\n" in config)
    check("nothing of it is warned of", "warning" not in configured.stdout.lower(), configured.stdout[-1000:])
    facts = run(*make, "-s", "--no-print-directory", "printvars", "VARS=PYHOST_%")
    commit = run("git", "rev-parse", "HEAD").stdout.strip()
    for line in ("PYHOST_LICENSE=MIT", f"PYHOST_VERSION={commit}", f"PYHOST_SITE={HERE}"):
        check(f"Buildroot knows {line.split('=')[0]}", line in facts.stdout, facts.stdout[-2000:])
    steps = run(*make, "-s", "--no-print-directory", "printvars", "VARS=PYHOST_BUILD_CMDS PYHOST_INSTALL_TARGET_CMDS PYHOST_CARGO_ENV")
    words = ("cargo build", "--offline", "--bin pyhost --bin pyhostctl", "/usr/bin/pyhostctl")
    words += ('PYHOST_BAKED_CAP="14M"', 'PYHOST_BAKED_RETAIN="small"')
    check("its steps are the package's", all(word in steps.stdout for word in words), steps.stdout[-3000:])


def yocto_itself(folder):
    """Has bitbake read the recipe."""
    output = SCRATCH / "yocto"
    shutil.rmtree(output, ignore_errors=True)
    (output / "conf").mkdir(parents=True)
    recipe = LAYER / "recipes-devtools/pyhost/pyhost_git.bb"
    (output / "conf/bblayers.conf").write_text(f'BBPATH = "${{TOPDIR}}"\nBBFILES = ""\nBBLAYERS = "{folder}/meta {LAYER}"\n')
    # bitbake refuses root, which is user 1000 in a user namespace.
    as_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.getuid() == 0 else []
    # bitbake requires it; small systems lack it.
    locales = SCRATCH / "locales"
    locales.mkdir(exist_ok=True)
    made = run("localedef", "-i", "en_US", "-f", "UTF-8", locales / "en_US.UTF-8")
    if made.returncode:
        raise targets.Refused(f"--yocto: localedef: {made.stdout.strip()}")
    passed = {"LC_ALL": "C.UTF-8", "LOCPATH": str(locales), "BB_ENV_PASSTHROUGH_ADDITIONS": "LOCPATH"}
    commit = run("git", "rev-parse", "HEAD").stdout.strip()
    for machine, macros in (("qemuarm64", False), ("qemuarm", True)):
        settings = {"MACHINE": machine, "DISTRO": "nodistro", "BB_NO_NETWORK": "1"}
        settings |= {"PYHOST_BAKED_CAP": "14M", "PYHOST_BAKED_RETAIN": "small"}
        (output / "conf/local.conf").write_text("".join(f'{name} = "{value}"\n' for name, value in settings.items()))
        command = f"cd {folder} && . ./oe-init-build-env {output} >/dev/null && bitbake -e -b {recipe}"
        said = run(*as_user, "bash", "-c", command, env={**os.environ, **passed})
        check(f"bitbake reads the recipe for {machine}", said.returncode == 0, said.stdout[-1500:])
        for line in ('LICENSE="MIT"', 'export PYHOST_BAKED_CAP="14M"', 'export PYHOST_BAKED_RETAIN="small"', f'SRCREV="{commit}"'):
            check(f"it knows {line}", f"\n{line}\n" in said.stdout)
        flags = re.search(r'^(?:export )?CFLAGS="(.*)"$', said.stdout, re.MULTILINE)
        check(f"the macros are {'set' if macros else 'not set'}", flags and ("-DMI_PAGE" in flags.group(1)) == macros, flags)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--buildroot", type=pathlib.Path, metavar="FOLDER", help="a checkout of Buildroot")
    parser.add_argument("--yocto", type=pathlib.Path, metavar="FOLDER", help="a checkout of OpenEmbedded-Core, with bitbake in it")
    options = parser.parse_args()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    flags_agree()
    if options.buildroot:
        buildroot_itself(options.buildroot.resolve())
    if options.yocto:
        yocto_itself(options.yocto.resolve())
    if not (options.buildroot or options.yocto):
        buildroot_by_hand()
    return closing()


if __name__ == "__main__":
    targets.run(main, "devices/tests/recipes.py")
