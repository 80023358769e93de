#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::count(ringfence_planner::testing::alias_heaps(data)));
