//! libFuzzer target: `codecs::names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logtool_fuzz::codecs::names(data));
