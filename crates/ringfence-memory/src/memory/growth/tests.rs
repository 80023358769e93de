use super::*;

/// A round that created blocks is followed by another one, because the blocks may already be used up.
#[test]
fn the_thread_sleeps_after_each_round_that_created_nothing_until_it_is_stopped() {
    for (rounds, ends_by_stop, expected) in [
        (vec![0], true, "0 sleep"),
        (vec![2, 1, 0, 3, 0], true, "2 1 0 sleep 3 0 sleep"),
        (vec![0, 0, 1], false, "0 sleep 0 sleep 1 gone"),
        (vec![], true, ""),
    ] {
        let (stop, log) = (AtomicBool::new(ends_by_stop && rounds.is_empty()), std::cell::RefCell::new(Vec::new()));
        let mut rest = rounds.iter();
        let work = || {
            let made = rest.next().copied();
            stop.store(ends_by_stop && rest.len() == 0, Ordering::Release);
            log.borrow_mut().push(made.map_or("gone".to_owned(), |made| made.to_string()));
            made
        };
        repeat(&stop, work, || log.borrow_mut().push("sleep".to_owned()));
        assert_eq!(log.borrow().join(" "), expected, "{rounds:?}");
    }
}
