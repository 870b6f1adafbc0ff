//! libFuzzer target: `segment::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logtool_fuzz::segment::segment(data));
