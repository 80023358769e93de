use super::*;
use crate::sim;

/// After a cycle that compacted a block, another cycle begins if the ended cycle was the first one or has emptied a
/// block. At most `CYCLES_MAX` cycles follow the first one.
#[test]
fn a_cycle_follows_as_long_as_it_may_empty_a_block() {
    for (has_compacted, cycle, emptied_in_cycle, goes_on) in [
        (true, 0, 0, true),
        (true, 0, 1, true),
        (false, 0, 0, false),
        (false, 0, 1, false),
        (true, 1, 0, false),
        (true, 1, 1, true),
        (true, 2, 3, true),
        (false, 1, 1, false),
        (true, CYCLES_MAX - 1, 1, true),
        (true, CYCLES_MAX, 1, false),
    ] {
        let case = format!("{has_compacted}, cycle {cycle}, {emptied_in_cycle} emptied");
        let mut run = ArenaRun { cycle, emptied_in_cycle, ..ArenaRun::<sim::Device>::new(ArenaRef::Own(0)) };
        assert_eq!(run.begin_cycle(has_compacted), goes_on, "{case}");
        assert_eq!((run.cycle, run.emptied_in_cycle), (cycle + 1, 0), "{case}");
        assert_eq!((matches!(run.phase, Phase::Waiting), run.is_done()), (goes_on, !goes_on), "{case}");
    }
}
