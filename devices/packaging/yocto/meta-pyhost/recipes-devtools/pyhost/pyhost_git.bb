SUMMARY = "Runs Python programs with every allocation of CPython capped and accounted for"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=7afe0171bf446a8b75121f700832e2c5"

def pyhost_commit(d):
    try:
        return bb.process.run(["git", "-C", d.getVar("PYHOST_CHECKOUT"), "rev-parse", "HEAD"])[0].strip()
    except bb.process.CmdError as error:
        raise bb.parse.SkipRecipe(f"the layer is in no git checkout that can be read: {error}")

# The commit that is checked out around this layer, whichever branch it is on. It changes without a change of this file, so
# what was read of the file is not kept.
SRC_URI = "git://${PYHOST_CHECKOUT};protocol=file;nobranch=1"
SRCREV := "${@pyhost_commit(d)}"
BB_DONT_CACHE = "1"

PV = "0.1.0+git"

# Before the first build: `bitbake -c update_crates pyhost` writes this file from Cargo.lock.
include pyhost-crates.inc

inherit cargo cargo-update-recipe-crates python_pyo3

DEPENDS += "python3"
# Modules that functions of `pyhost` import.
RDEPENDS:${PN} += "python3-core python3-html python3-json"
COMPATIBLE_HOST = "(x86_64|aarch64|arm).*-linux(-gnu.*)?$"
COMPATIBLE_HOST:libc-musl = "null"

# Limits that are baked in, such as 14M, 24M and small: set them in local.conf or in a .bbappend.
export PYHOST_BAKED_CAP ?= ""
export PYHOST_BAKED_REGION ?= ""
export PYHOST_BAKED_RETAIN ?= ""
export PYHOST_PYTHON_INCLUDE = "${STAGING_INCDIR}/${PYTHON_DIR}"

# What mimalloc must be compiled with for ARM of 32 bits, see src/heap/build.rs.
CFLAGS:append = "${@' -DMI_USE_BUILTIN_THREAD_POINTER=1 -DMI_PAGE_META_IS_SEPARATED=1' if target_is_armv7(d) else ''}"

CARGO_BUILD_FLAGS += "--no-default-features --package pyhost --bins"

do_configure() {
    python_pyo3_do_configure
    cargo_common_do_configure
}

do_install() {
    install -d ${D}${bindir}
    for program in pyhost pyhostctl; do
        install -m 0755 ${B}/target/${CARGO_TARGET_SUBDIR}/$program ${D}${bindir}/
    done
}
