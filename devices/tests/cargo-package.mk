# Stands in for Buildroot, as far as devices/packaging/buildroot uses it: the variables that its manual names, and `cargo-package`,
# whose steps are targets here. run.py gives STAGING_DIR, TARGET_DIR, BUILD_DIR, RUSTC_TARGET_NAME, CROSS and FLAGS.

qstrip = $(strip $(subst ",,$(1)))
INSTALL = install
TARGET_CROSS = $(CROSS)
TARGET_CFLAGS = -Os $(FLAGS)
TARGET_CONFIGURE_OPTS = CC="$(CROSS)gcc" AR="$(CROSS)ar" CFLAGS="$(TARGET_CFLAGS)"

upper = $(shell echo $(1) | tr a-z- A-Z_)
rust_variable = CARGO_TARGET_$(call upper,$(RUSTC_TARGET_NAME))_$(1)

# The source is unpacked in BUILD_DIR, where the targets are, since make itself sets @D. Cargo's words are those of Buildroot's
# own.
define cargo-package
.PHONY: $(BUILD_DIR)/pyhost-build $(BUILD_DIR)/pyhost-install
$(BUILD_DIR)/pyhost-build:
	cd $(BUILD_DIR) && $(TARGET_CONFIGURE_OPTS) CARGO_BUILD_TARGET=$(RUSTC_TARGET_NAME) \
		$(call rust_variable,LINKER)=$(CROSS)gcc \
		$(call rust_variable,RUSTFLAGS)="$(foreach flag,$(FLAGS),-Clink-arg=$(flag))" \
		$(PYHOST_CARGO_ENV) cargo build --offline --release --manifest-path Cargo.toml --locked $(PYHOST_CARGO_BUILD_OPTS)
$(BUILD_DIR)/pyhost-install:
	$$(PYHOST_INSTALL_TARGET_CMDS)
endef

all: $(BUILD_DIR)/pyhost-build $(BUILD_DIR)/pyhost-install
include $(BR2_EXTERNAL_PYHOST_PATH)/external.mk
