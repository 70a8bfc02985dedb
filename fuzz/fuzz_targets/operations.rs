#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| shamba::fuzzing::run("operations", data));
