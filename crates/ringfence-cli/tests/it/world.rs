//! `ringfence world`: a seed always gives the same world, and the other commands can read the trace of a world.

use crate::command;

use command::ringfence;

#[test]
fn a_seed_is_a_world_and_its_trace_can_be_replayed_and_reported() {
    let first = ringfence(&["world", "--seed", "17", "--json"]);
    assert!(first.is_success(), "{}", first.err);
    assert_eq!(first.out, ringfence(&["world", "--seed", "17", "--json"]).out);
    assert_ne!(first.out, ringfence(&["world", "--seed", "18", "--json"]).out);
    let scratch = std::env::temp_dir().join(format!("ringfence-world-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a folder");
    let (trace, page) = (scratch.join("world.rft"), scratch.join("world.html"));
    let (trace, page) = (trace.to_str().expect("text"), page.to_str().expect("text"));
    assert!(ringfence(&["world", "--seed", "17", "--trace", trace]).is_success());
    for arguments in [&["replay", trace][..], &["report", trace, "--output", page]] {
        let answer = ringfence(arguments);
        assert!(answer.is_success(), "{arguments:?}: {}", answer.err);
    }
    std::fs::remove_dir_all(&scratch).expect("it was made here");
}

#[test]
fn many_worlds_and_bad_requests() {
    let many = ringfence(&["world", "--count", "20", "--threads", "2", "--steps", "40"]);
    assert!(many.is_success() && many.out.contains("20 worlds"), "{}{}", many.out, many.err);
    let refused = ringfence(&["world", "--count", "2", "--trace", "x.rft"]);
    assert_eq!((refused.code, refused.err.lines().count()), (Some(1), 1));
    for (arguments, name) in [
        (&["--threads", "0"][..], "--threads"),
        (&["--count", "0"], "--count"),
        (&["--count", "-1"], "invalid value '-1' for '--count"),
        (&["--steps", "0"], "--steps"),
        (&["--seed", "18446744073709551615", "--count", "2"], "2 worlds from seed 18446744073709551615"),
    ] {
        let refused = ringfence(&[&["world"], arguments].concat());
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(refused.err.contains(name) && refused.err.lines().count() == 1, "{}", refused.err);
    }
    let last = ringfence(&["world", "--seed", "18446744073709551615", "--steps", "5"]);
    assert!(last.is_success() && last.out.contains("1 worlds"), "{}{}", last.out, last.err);
}
