#![no_main]
//! Reads an untrusted trace to its end or to the first damage, applies each event, and computes snapshot and
//! statistics.

use ringfence_trace::{Reader, State};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut events = 0;
    if let Ok(reader) = Reader::new(data) {
        let mut state = State::new();
        for event in reader {
            let Ok(event) = event else { break };
            state.apply(&event);
            events += 1;
        }
        let _ = (state.snapshot(), state.statistics(), state.free_bytes());
    }
    let _ = ringfence_report::History::read(data);
    ringfence_fuzz::count(events + 1);
});
