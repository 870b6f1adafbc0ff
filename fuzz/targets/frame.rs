//! libFuzzer target: `codecs::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logtool_fuzz::codecs::frame(data));
