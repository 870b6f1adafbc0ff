//! libFuzzer target: `repair::repair_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logtool_fuzz::repair::repair_log(data));
