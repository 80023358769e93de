#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ringfence_fuzz::count(ringfence_core::testing::drive::virtual_allocator(
    data
)));
