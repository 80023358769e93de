//! Offsets for the resources of a frame, computed by the planner of [`ringfence_alias`].
//!
//! On one queue, the lifetime of a resource is the interval from its first pass to its last. On several queues, two
//! resources may share bytes only if every last use of one comes before the first use of the other. In this case, the
//! planner gets the partial order of the passes instead of intervals.

use ringfence_alias::{self as alias, Item, ItemError, Lifetime, PassGraph, PassItem, Problem, Progress};

use super::error::TransientError;
use super::frame::FramePass;
use crate::device::DeviceError;

/// A resource in the form that the planner takes. Passes are given by their index in the list of passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) size: u64,
    pub(super) alignment: u64,
    pub(super) first: usize,
    pub(super) last: &'a [usize],
}

/// Result of a plan: the offset of each piece, the height of the heap, and a lower bound for the height of any plan, in
/// bytes.
pub(super) struct Layout {
    pub(super) offsets: Vec<u64>,
    pub(super) height: u64,
    pub(super) lower_bound: u64,
}

/// The layout of the previous frame.
#[derive(Clone, Debug)]
pub(super) struct LastLayout {
    /// Previous offset of each piece, in bytes; `None` for a piece that the previous frame did not have.
    pub(super) offsets: Vec<Option<u64>>,
    pub(super) height: u64,
}

/// Maximum number of pieces for which [`plan`] reduces the number of transitions. For more pieces, even one look at all
/// of them would take longer than planning.
const LOWERED_MAX: usize = 2_000;

/// Plans the offsets of the pieces, for as long as `go_on` returns `true`. Keeps the previous offsets of as many pieces
/// as a greedy method can. The heap is then no higher than the higher of the previous heap and a new plan. Then spends
/// up to `transition_steps` steps on moving the other pieces, without more height, so that fewer pieces begin on bytes
/// of another piece (a transition).
pub(super) fn plan(
    passes: &[FramePass<'_>],
    pieces: &[Piece<'_>],
    last: Option<LastLayout>,
    transition_steps: u64,
    go_on: impl FnMut(&Progress) -> bool,
) -> Result<Layout, TransientError> {
    let is_one_queue = passes.windows(2).all(|pair| pair[0].queue == pair[1].queue);
    let problem = if is_one_queue { on_one_queue(pieces)? } else { on_several_queues(passes, pieces)? };
    let plan = alias::plan(&problem, go_on);
    let lower_bound = plan.lower_bound;
    let kept = last.and_then(|last| alias::plan_keeping(&problem, &last.offsets, plan.height.max(last.height)));
    let kept = kept.filter(|kept| kept.kept.contains(&true));
    let (mut plan, stays) = kept.map_or((plan, Vec::new()), |kept| (kept.plan, kept.kept));
    if transition_steps > 0 && pieces.len() <= LOWERED_MAX {
        let may_move = |piece: usize| !stays.get(piece).copied().unwrap_or(false);
        let mut left = transition_steps;
        alias::lower_transitions(&problem, &mut plan, may_move, |progress| {
            left = left.saturating_sub(progress.steps);
            left > 0
        });
    }
    Ok(Layout { offsets: plan.offsets, height: plan.height, lower_bound })
}

fn refused(error: ItemError) -> TransientError {
    match error {
        ItemError::RelationTooLarge { .. } => TransientError::Resources(error),
        _ => DeviceError::invalid("the sizes of the frame's resources sum up to 2^63 bytes or more").into(),
    }
}

fn on_one_queue(pieces: &[Piece<'_>]) -> Result<Problem, TransientError> {
    let item = |piece: &Piece<'_>| {
        let end = piece.last.iter().copied().max().unwrap_or(0).max(piece.first) as u64 + 1;
        let lifetime = Lifetime { lower: piece.first as u64, upper: end };
        Item { alignment: piece.alignment, lifetime, ..Item::new(piece.size, 0, 1) }
    };
    Problem::new(&pieces.iter().map(item).collect::<Vec<_>>()).map_err(refused)
}

fn on_several_queues(passes: &[FramePass<'_>], pieces: &[Piece<'_>]) -> Result<Problem, TransientError> {
    let mut edges: Vec<(usize, usize)> = Vec::new();
    for (at, pass) in passes.iter().enumerate() {
        edges.extend(passes[..at].iter().rposition(|other| other.queue == pass.queue).map(|before| (before, at)));
        edges.extend(pass.waits.iter().map(|wait| (*wait, at)));
    }
    let graph = PassGraph::new(passes.len(), &edges).map_err(TransientError::Passes)?;
    let item = |piece: &Piece<'_>| PassItem {
        size: piece.size,
        alignment: piece.alignment,
        passes: piece.last.iter().copied().chain([piece.first]).collect(),
    };
    Problem::with_passes(&graph, &pieces.iter().map(item).collect::<Vec<_>>()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_core::sync::TimelineId;

    /// Pieces share bytes if the passes of one are ordered before those of the other: by their queue, or by a wait.
    #[test]
    fn pieces_share_bytes_only_in_passes_that_are_ordered() {
        let [one, two] = [0, 1].map(|queue| FramePass::on(TimelineId::new(queue)));
        let waits = |at| FramePass { waits: at, ..two };
        for (passes, height) in [
            (vec![one, one], 100),
            (vec![one, two], 200),
            (vec![one, waits(&[0])], 100),
            // The pieces are used by the first and by the last pass.
            (vec![one, two, one], 100),
            (vec![one, one, two], 200),
            (vec![one, one, waits(&[0])], 100),
            (vec![two, one, two], 100),
        ] {
            let piece = |first| Piece { size: 100, alignment: 4, first, last: &[] };
            let pieces = [piece(0), piece(passes.len() - 1)];
            let found = plan(&passes, &pieces, None, 0, |_| true).expect("small sizes");
            assert_eq!(found.height, height, "{passes:?}");
        }
    }

    #[test]
    fn a_table_that_is_too_large_is_named_in_the_error() {
        let too_large = ItemError::RelationTooLarge { count: 7, bytes: 8, bytes_max: 6 };
        assert_eq!(refused(too_large), TransientError::Resources(too_large));
        assert!(matches!(refused(ItemError::ZeroSize { index: 0 }), TransientError::Memory(_)));
    }

    #[test]
    fn offsets_are_aligned_on_one_queue_and_on_several() {
        let [one, two] = [0, 1].map(|queue| FramePass::on(TimelineId::new(queue)));
        for passes in [[one, one], [one, two]] {
            let piece = |size, alignment| Piece { size, alignment, first: 0, last: &[1] };
            let pieces = [piece(100, 4), piece(60, 256), piece(300, 512)];
            let found = plan(&passes, &pieces, None, 0, |_| true).expect("small sizes");
            let is_aligned = |(piece, offset): (&Piece<'_>, &u64)| offset.is_multiple_of(piece.alignment);
            assert!(pieces.iter().zip(&found.offsets).all(is_aligned), "{:?}", found.offsets);
        }
    }

    #[test]
    fn what_lies_where_it_lay_is_not_moved_to_save_a_barrier() {
        let mut state = 11_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let passes = [FramePass::on(TimelineId::new(0)); 30];
        let mut moved_count = 0;
        for _ in 0..30 {
            let lasts: Vec<[usize; 1]> = (0..30).map(|at| [(at + random(6) as usize).min(29)]).collect();
            let sizes: Vec<u64> = (0..30).map(|_| 64 << random(3)).collect();
            let pieces = |shrunk: usize| -> Vec<Piece<'_>> {
                let size = |at: usize| if at == shrunk { 32 } else { sizes[at] };
                (0..30).map(|at| Piece { size: size(at), alignment: 32, first: at, last: &lasts[at] }).collect()
            };
            let before = plan(&passes, &pieces(usize::MAX), None, 0, |_| false).expect("small sizes");
            let last = || {
                let offsets =
                    before.offsets.iter().enumerate().map(|(at, offset)| (!at.is_multiple_of(9)).then_some(*offset));
                Some(LastLayout { offsets: offsets.collect(), height: before.height })
            };
            let plain = plan(&passes, &pieces(7), last(), 0, |_| false).expect("small sizes");
            let lowered = plan(&passes, &pieces(7), last(), u64::MAX, |_| false).expect("small sizes");
            let stayed = |at: &usize| !at.is_multiple_of(9) && plain.offsets[*at] == before.offsets[*at];
            for at in (0..30).filter(stayed) {
                assert_eq!(lowered.offsets[at], before.offsets[at]);
            }
            assert_eq!((lowered.height, lowered.lower_bound), (plain.height, plain.lower_bound));
            moved_count += (0..30).filter(|at| lowered.offsets[*at] != plain.offsets[*at]).count();
        }
        assert!(moved_count > 0, "new pieces may be placed elsewhere");
    }
}
