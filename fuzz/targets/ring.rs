//! libFuzzer target: `ring::ring`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logtool_fuzz::ring::ring(data));
