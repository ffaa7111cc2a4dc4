//! Fuzz target of the parsers: no input panics, and an accepted message round-trips.
#![no_main]

use a2a_protocol::{Envelope, Progress};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Progress::parse(bytes);
    match Envelope::parse(bytes) {
        Ok(envelope) => {
            let written = serde_json::to_vec(&envelope).expect("an envelope can be written");
            assert_eq!(Envelope::parse(&written), Ok(envelope));
        }
        Err(report) => assert!(!report.violations().is_empty()),
    }
});
