#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pyhost_ctl::hostile::report(bytes));
