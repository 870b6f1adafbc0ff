//! libFuzzer target: `log::log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logtool_fuzz::log::log(data));
