#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::count(ringfence_alias::testing::frame_plan(data)));
