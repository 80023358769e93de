use super::*;

#[test]
fn a_refusal_holds_for_as_many_bytes_until_the_next_epoch() {
    let refusals = Refusals::new(2, 2);
    let covers = |kind, bytes| refusals.covers(1, kind, bytes, refusals.epoch(1));
    assert!(!covers(ObjectKind::Block, 100), "no request was refused");
    refusals.note(1, ObjectKind::Block, 100, refusals.epoch(1));
    refusals.note(1, ObjectKind::Block, 200, refusals.epoch(1));
    assert!(covers(ObjectKind::Block, 100) && !covers(ObjectKind::Block, 99));
    assert!(!covers(ObjectKind::Dedicated, 100), "the other kind was not refused");
    assert!(!refusals.covers(0, ObjectKind::Block, 100, refusals.epoch(1)), "nor another type");
    refusals.forget(0);
    assert!(covers(ObjectKind::Block, 100), "only another heap was freed");
    refusals.forget(1);
    assert!(!covers(ObjectKind::Block, u64::MAX));
}

/// A refusal does not count after memory was freed, because it may be out of date.
#[test]
fn a_refusal_from_before_something_was_freed_does_not_hold() {
    let refusals = Refusals::new(1, 1);
    let before = refusals.epoch(0);
    refusals.forget(0);
    refusals.note(0, ObjectKind::Dedicated, 100, before);
    assert!(!refusals.covers(0, ObjectKind::Dedicated, 100, refusals.epoch(0)));
}

#[test]
fn a_trim_is_known_by_its_mark() {
    let refusals = Refusals::new(1, 1);
    refusals.note_trimmed(Some(0), 7);
    assert!(refusals.was_trimmed(Some(0), 7) && !refusals.was_trimmed(Some(0), 8));
    assert!(!refusals.was_trimmed(None, 7));
}
