include $(sort $(wildcard $(BR2_EXTERNAL_PYHOST_PATH)/package/*/*.mk))
