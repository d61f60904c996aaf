#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| voxtral_tests::fuzzing::blocks(data));
