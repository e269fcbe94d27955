################################################################################
#
# pyhost
#
################################################################################

# The commit that is checked out where this tree is. The crates are fetched when the package is downloaded.
PYHOST_SITE = $(realpath $(BR2_EXTERNAL_PYHOST_PATH)/../../..)
PYHOST_SITE_METHOD = git
PYHOST_VERSION = $(shell git -C $(PYHOST_SITE) rev-parse HEAD)
PYHOST_LICENSE = MIT
PYHOST_LICENSE_FILES = LICENSE
PYHOST_DEPENDENCIES = python3

PYHOST_PROGRAMS = pyhost $(if $(BR2_PACKAGE_PYHOST_CTL),pyhostctl)
PYHOST_CARGO_BUILD_OPTS = --no-default-features --package pyhost $(addprefix --bin ,$(PYHOST_PROGRAMS))

# What mimalloc must be compiled with for ARM of 32 bits, see src/heap/build.rs.
PYHOST_MACROS = $(if $(BR2_ARM_CPU_ARMV7A),-DMI_USE_BUILTIN_THREAD_POINTER=1 -DMI_PAGE_META_IS_SEPARATED=1)

PYHOST_CARGO_ENV = \
	PYO3_CROSS_LIB_DIR=$(STAGING_DIR)/usr/lib \
	PYO3_CROSS_PYTHON_VERSION=$(PYTHON3_VERSION_MAJOR) \
	PYHOST_PYTHON_INCLUDE=$(STAGING_DIR)/usr/include/python$(PYTHON3_VERSION_MAJOR) \
	PYHOST_BAKED_CAP=$(BR2_PACKAGE_PYHOST_CAP) \
	PYHOST_BAKED_REGION=$(BR2_PACKAGE_PYHOST_REGION) \
	PYHOST_BAKED_RETAIN=$(BR2_PACKAGE_PYHOST_RETAIN) \
	CFLAGS_$(subst -,_,$(RUSTC_TARGET_NAME))="$(TARGET_CFLAGS) $(PYHOST_MACROS)"

define PYHOST_INSTALL_TARGET_CMDS
	$(foreach program,$(PYHOST_PROGRAMS),\
		$(INSTALL) -D -m 0755 $(@D)/target/$(RUSTC_TARGET_NAME)/$(if $(BR2_ENABLE_DEBUG),debug,release)/$(program) \
			$(TARGET_DIR)/usr/bin/$(program)
	)
endef

$(eval $(cargo-package))
