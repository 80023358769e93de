//! The exact search for few items: decides for pairs of items which one is below the other, and learns from each
//! failure.
//!
//! ```text
//!   a pair that clashes     a below b  or  b below a           the decisions
//!   an item                 low ≤ offset ≤ high                bounds that follow from them, rounded to its alignment
//!   a section               items that must be between two heights must fit there; so must the large items, each at a
//!                           multiple of the largest alignment
//!
//!   failure ──▶ reasons ──▶ … ──▶ "not both of these": a clause, kept; back to where the clause implies something
//! ```
//!
//! This is conflict-driven learning over bounds that are created as needed (lazy clause generation: Ohrimenko, Stuckey
//! and Codish, 2009), for disjunctive resources. A plan is found when no two clashing items overlap with each item at
//! its `low`. A failure that depends on no decision proves that there is no plan. Learned clauses hold for every lower
//! height too, so one search continues from plan to plan down to the proof.
//!
//! A step of propagation costs O(neighbours), or O(items²) of the sections concerned.

mod explain;
mod infer;
mod sets;

use super::exact::{Outcome, Scale};
use super::random::Random;
use super::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;

/// No entry.
const NONE: u32 = u32::MAX;
/// Visits between two calls of the closure, and per step.
const LOOKS_A_QUESTION: u64 = 1 << 14;
const LOOKS_A_STEP: u64 = 1 << 6;
/// Failures until the search restarts: this number, times a number of Luby's sequence.
const FAILURES_A_RUN: u64 = 100;
/// Growth of the weight of a failure relative to the previous one.
const FADING: f64 = 1.0 / 0.95;
const WEIGHT_MAX: f64 = 1e100;
/// Number of clauses that are kept at first. It grows each time that half of them are dropped.
const CLAUSES: usize = 4_000;

/// A statement that is true, false or undecided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Literal {
    /// `2 * pair`: the first item of the pair is below the second. `2 * pair + 1`: the second is below the first.
    Below(u32),
    /// The item is at this offset or higher: a multiple of its alignment.
    AtLeast(u32, i64),
    /// The item is at this offset or lower: a multiple of its alignment.
    AtMost(u32, i64),
}

/// Reason why a literal is true.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A decision.
    Decision,
    /// A clause whose other literals are false.
    Clause(u32),
    /// A literal `Below`, and the bound of the other item of the pair.
    Edge(u32),
    /// A range of `facts`.
    Facts(u32, u32),
}

/// A literal that became true.
struct Entry {
    literal: Literal,
    reason: Reason,
    level: u32,
    /// The previous entry of the same bound, and the previous value.
    before: u32,
    value_before: i64,
}

/// A clause: at least one of the literals is true.
struct Clause {
    literals: Vec<Literal>,
    weight: f64,
}

/// Two items that clash.
#[derive(Clone, Copy)]
struct Pair {
    first: u32,
    second: u32,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Learner {
    capacity: u64,
    grain: u64,
    true_sizes: Vec<u64>,
    size: Vec<i64>,
    /// Alignments minus one.
    mask: Vec<i64>,
    /// Largest alignment minus one, and `true` for the items that have it: the large ones.
    most: i64,
    is_large: Vec<bool>,
    /// Sizes, rounded up to the largest alignment.
    padded: Vec<i64>,
    pairs: Vec<Pair>,
    /// For each item, those that clash with it, and the literal that the item is below them.
    near: Vec<Vec<(u32, u32)>>,
    /// Literal that one item is below another, as a square matrix; `NONE` if they do not clash.
    below: Vec<u32>,
    /// Items of each section, and sections of each item.
    members: Vec<Vec<u32>>,
    sections: Vec<Vec<u32>>,
    low: Vec<i64>,
    high: Vec<i64>,
    /// Last entry of each bound and each pair.
    low_at: Vec<u32>,
    high_at: Vec<u32>,
    order_at: Vec<u32>,
    /// For each literal `Below`, `true` if it is true.
    is_below: Vec<bool>,
    /// For each item, bits of the items below it, and of the items above it.
    under: Vec<u64>,
    over: Vec<u64>,
    /// For each section, bits of its items.
    member_bits: Vec<u64>,
    trail: Vec<Entry>,
    /// Number of entries of the trail that are propagated.
    looked: usize,
    /// For each level, the number of entries and facts before it.
    levels: Vec<(usize, usize)>,
    facts: Vec<Literal>,
    clauses: Vec<Clause>,
    /// Clauses to examine when a literal becomes true, for `Below`, `AtLeast` and `AtMost`.
    watches: [Vec<Vec<u32>>; 3],
    /// Sections to examine: flags and queue.
    dirty: Vec<bool>,
    queue: Vec<u32>,
    /// After a failure: facts that cannot all be true.
    conflict: Vec<Literal>,
    /// For each entry, `true` if the failure depends on it, and the part of it that is needed.
    needed: Vec<bool>,
    need: Vec<i64>,
    /// For each pair of clashing items, the number of failures that it caused. Later failures have a larger weight.
    weight: Vec<f64>,
    bump: f64,
    clause_bump: f64,
    /// For each pair, the preferred choice: `true` if the first item is below the second.
    phase: Vec<bool>,
    failures: u64,
    run: u64,
    left: u64,
    kept_max: usize,
    looks: u64,
    is_over: bool,
    /// Scratch.
    by_low: Vec<u32>,
    by_end: Vec<u32>,
}

/// Largest number of items: sets of items are bits of a word.
pub(super) const ITEMS_MAX: usize = 64;

impl Learner {
    /// Creates the search for at most [`ITEMS_MAX`] items. O(n²).
    pub fn new<S: Shape>(shape: &S, scale: &Scale, true_sizes: &[u64]) -> Self {
        let count = scale.sizes.len();
        let mask: Vec<i64> = scale.masks.iter().map(|&mask| mask as i64).collect();
        let size: Vec<i64> = scale.sizes.iter().map(|&size| size as i64).collect();
        let most = mask.iter().copied().max().unwrap_or(0);
        let mut learner = Self {
            capacity: u64::MAX,
            grain: scale.grain,
            true_sizes: true_sizes.to_vec(),
            most,
            is_large: mask.iter().map(|&mask| mask == most).collect(),
            padded: size.iter().map(|size| (size + most) & !most).collect(),
            near: vec![Vec::new(); count],
            below: vec![NONE; count * count],
            members: vec![Vec::new(); shape.section_count()],
            sections: (0..count).map(|item| shape.sections(item).map(|section| section as u32).collect()).collect(),
            low: vec![0; count],
            under: vec![0; count],
            over: vec![0; count],
            member_bits: vec![0; shape.section_count()],
            low_at: vec![NONE; count],
            high_at: vec![NONE; count],
            dirty: vec![true; shape.section_count()],
            queue: (0..shape.section_count() as u32).collect(),
            bump: 1.0,
            clause_bump: 1.0,
            kept_max: CLAUSES,
            mask,
            size,
            ..Self::default()
        };
        learner.high = (0..count).map(|item| learner.highest(item, i64::MAX as u64 / 4)).collect();
        for (item, sections) in learner.sections.iter().enumerate() {
            for &section in sections {
                learner.members[section as usize].push(item as u32);
                learner.member_bits[section as usize] |= 1 << item;
            }
        }
        learner.find_pairs(|a, b| shape.clash(shape.key(a), shape.key(b)));
        let pairs = learner.pairs.len();
        learner.order_at = vec![NONE; pairs];
        learner.is_below = vec![false; 2 * pairs];
        learner.weight = vec![0.0; pairs];
        learner.phase = vec![false; pairs];
        learner.watches = [2 * pairs, count, count].map(|many| vec![Vec::new(); many]);
        learner.left = FAILURES_A_RUN;
        learner.order_twins();
        learner
    }

    fn find_pairs(&mut self, clash: impl Fn(usize, usize) -> bool) {
        let count = self.size.len();
        for a in 0..count {
            for b in (a + 1..count).filter(|&b| clash(a, b)) {
                let literal = 2 * self.pairs.len() as u32;
                self.pairs.push(Pair { first: a as u32, second: b as u32 });
                self.near[a].push((b as u32, literal));
                self.near[b].push((a as u32, literal + 1));
                (self.below[a * count + b], self.below[b * count + a]) = (literal, literal + 1);
            }
        }
    }

    /// Orders each pair of equal items by their numbers, because exchanging the two gives an equal plan.
    fn order_twins(&mut self) {
        for pair in 0..self.pairs.len() {
            let Pair { first, second } = self.pairs[pair];
            let (a, b) = (first as usize, second as usize);
            let is_same = self.size[a] == self.size[b]
                && self.true_sizes[a] == self.true_sizes[b]
                && self.mask[a] == self.mask[b]
                && self.sections[a] == self.sections[b];
            if is_same {
                self.is_over |= !self.set(Literal::Below(2 * pair as u32), Reason::Decision);
            }
        }
    }

    /// Returns the highest offset of an item within a capacity.
    fn highest(&self, item: usize, capacity: u64) -> i64 {
        let limit = capacity.saturating_sub(self.true_sizes[item]) / self.grain;
        limit as i64 & !self.mask[item]
    }

    pub fn is_begun(&self) -> bool {
        self.looks > 0
    }

    /// Prefers the order that the items have in a plan with these offsets, in units. The seed determines the pairs that
    /// are decided first.
    pub fn lean_on(&mut self, offsets: &[u64], seed: u64) {
        let mut random = Random(seed);
        self.weight.iter_mut().for_each(|weight| *weight = random.next());
        for (phase, pair) in self.phase.iter_mut().zip(&self.pairs) {
            *phase = offsets[pair.first as usize] < offsets[pair.second as usize];
        }
    }

    /// Returns the offsets in units, after [`Outcome::Solved`].
    pub fn offsets(&self) -> Vec<u64> {
        self.low.iter().map(|&low| low as u64 * self.grain).collect()
    }

    /// Searches for a plan no higher than `capacity` units, for at most `looks_max` visits. The capacity must not rise
    /// between calls. Regularly calls `go_on` with the steps since the last call.
    pub fn search(&mut self, capacity: u64, looks_max: u64, go_on: &mut dyn FnMut(u64) -> bool) -> Outcome {
        if capacity < self.capacity {
            self.lower(capacity);
        }
        let end = self.looks + looks_max;
        let mut asked = self.looks;
        while !self.is_over {
            if !self.propagate() {
                self.learn();
                continue;
            }
            if self.looks - asked >= LOOKS_A_QUESTION || self.looks >= end {
                let steps = (self.looks - asked) / LOOKS_A_STEP;
                asked = self.looks;
                if !go_on(steps + 1) || self.looks >= end {
                    return Outcome::Stopped;
                }
            }
            if self.left == 0 {
                self.begin_anew();
                continue;
            }
            let Some(literal) = self.choose() else { return Outcome::Solved };
            self.levels.push((self.trail.len(), self.facts.len()));
            self.set(literal, Reason::Decision);
        }
        Outcome::Failed
    }

    fn lower(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.back_to(0);
        self.is_over |= self.true_sizes.iter().any(|&size| size > capacity);
        for item in 0..self.size.len() {
            let high = self.highest(item, capacity);
            self.is_over |= !self.set(Literal::AtMost(item as u32, high), Reason::Decision);
        }
    }

    /// Restarts from the first decision and keeps the learned clauses. Drops the least useful clauses if there are
    /// many.
    fn begin_anew(&mut self) {
        self.run += 1;
        self.left = FAILURES_A_RUN * luby(self.run);
        self.back_to(0);
        if self.clauses.len() > self.kept_max && self.looked == self.trail.len() {
            self.kept_max += self.kept_max / 4;
            self.drop_half();
        }
    }

    fn drop_half(&mut self) {
        // A literal that is true without a decision needs no reason.
        self.trail.iter_mut().for_each(|entry| entry.reason = Reason::Decision);
        let mut clauses = core::mem::take(&mut self.clauses);
        clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        clauses.truncate(self.kept_max / 2);
        self.watches.iter_mut().flatten().for_each(Vec::clear);
        for clause in clauses {
            // Both watched literals must be undecided, or one of them true.
            let mut literals = clause.literals;
            literals.sort_by_key(|&literal| self.is_false(literal));
            match literals.get(1).is_some_and(|&literal| !self.is_false(literal)) {
                true => self.keep(Clause { literals, weight: clause.weight }),
                false if self.is_false(literals[0]) => self.is_over = true,
                false => self.is_over |= !self.set(literals[0], Reason::Decision),
            }
        }
    }

    fn keep(&mut self, clause: Clause) {
        let place = self.clauses.len() as u32;
        clause.literals.iter().take(2).for_each(|&literal| self.watch(literal, place));
        self.clauses.push(clause);
    }

    /// Returns a literal of a pair of items that overlap if each item is at its `low`: the pair with the largest
    /// weight. Returns `None` if no two items overlap.
    fn choose(&mut self) -> Option<Literal> {
        let mut best: Option<(usize, f64)> = None;
        self.looks += self.pairs.len() as u64 / 4;
        for (pair, &Pair { first, second }) in self.pairs.iter().enumerate() {
            let (a, b) = (first as usize, second as usize);
            let overlap = self.low[a] < self.low[b] + self.size[b] && self.low[b] < self.low[a] + self.size[a];
            if overlap && best.is_none_or(|(_, weight)| self.weight[pair] > weight) {
                best = Some((pair, self.weight[pair]));
            }
        }
        let (pair, _) = best?;
        let first = self.phase[pair];
        Some(Literal::Below(2 * pair as u32 + u32::from(!first)))
    }

    /// Returns the lower and the upper item of a literal [`Literal::Below`].
    fn two_of(&self, literal: u32) -> (usize, usize) {
        let Pair { first, second } = self.pairs[literal as usize / 2];
        let (first, second) = (first as usize, second as usize);
        if literal & 1 == 0 { (first, second) } else { (second, first) }
    }

    fn up(&self, item: usize, offset: i64) -> i64 {
        (offset + self.mask[item]) & !self.mask[item]
    }

    fn is_true(&self, literal: Literal) -> bool {
        match literal {
            Literal::Below(literal) => self.is_below[literal as usize],
            Literal::AtLeast(item, offset) => self.low[item as usize] >= offset,
            Literal::AtMost(item, offset) => self.high[item as usize] <= offset,
        }
    }

    fn is_false(&self, literal: Literal) -> bool {
        self.is_true(self.not(literal))
    }

    fn not(&self, literal: Literal) -> Literal {
        match literal {
            Literal::Below(literal) => Literal::Below(literal ^ 1),
            Literal::AtLeast(item, offset) => Literal::AtMost(item, (offset - 1) & !self.mask[item as usize]),
            Literal::AtMost(item, offset) => Literal::AtLeast(item, offset + self.mask[item as usize] + 1),
        }
    }

    /// Makes a literal true. Returns `false` if it is already false, and sets `conflict`.
    fn set(&mut self, literal: Literal, reason: Reason) -> bool {
        if self.is_true(literal) {
            return true;
        }
        if self.is_false(literal) {
            self.conflict.clear();
            let mut why = core::mem::take(&mut self.conflict);
            self.explain(literal, reason, &mut why);
            why.push(self.not(literal));
            self.conflict = why;
            return false;
        }
        let entry = self.trail.len() as u32;
        let (before, value_before) = match literal {
            Literal::Below(literal) => {
                self.is_below[literal as usize] = true;
                let (lower, upper) = self.two_of(literal);
                self.under[upper] |= 1 << lower;
                self.over[lower] |= 1 << upper;
                self.order_at[literal as usize / 2] = entry;
                (NONE, 0)
            }
            Literal::AtLeast(item, offset) => {
                let value = core::mem::replace(&mut self.low[item as usize], offset);
                (core::mem::replace(&mut self.low_at[item as usize], entry), value)
            }
            Literal::AtMost(item, offset) => {
                let value = core::mem::replace(&mut self.high[item as usize], offset);
                (core::mem::replace(&mut self.high_at[item as usize], entry), value)
            }
        };
        self.trail.push(Entry { literal, reason, level: self.levels.len() as u32, before, value_before });
        true
    }

    fn back_to(&mut self, level: usize) {
        let Some(&(entries, facts)) = self.levels.get(level) else { return };
        while self.trail.len() > entries {
            let Some(entry) = self.trail.pop() else { break };
            match entry.literal {
                Literal::Below(literal) => {
                    self.is_below[literal as usize] = false;
                    let (lower, upper) = self.two_of(literal);
                    self.under[upper] &= !(1 << lower);
                    self.over[lower] &= !(1 << upper);
                    self.phase[literal as usize / 2] = literal & 1 == 0;
                }
                Literal::AtLeast(item, _) => {
                    self.low[item as usize] = entry.value_before;
                    self.low_at[item as usize] = entry.before;
                }
                Literal::AtMost(item, _) => {
                    self.high[item as usize] = entry.value_before;
                    self.high_at[item as usize] = entry.before;
                }
            }
        }
        self.facts.truncate(facts);
        self.levels.truncate(level);
        self.looked = self.looked.min(entries);
        for section in self.queue.drain(..) {
            self.dirty[section as usize] = false;
        }
    }
}

/// Returns number `place`, from 1, of Luby's sequence: 1, 1, 2, 1, 1, 2, 4, …
fn luby(place: u64) -> u64 {
    let mut place = place;
    loop {
        let bits = u64::BITS - place.leading_zeros();
        if place == (1 << bits) - 1 {
            return 1 << (bits - 1);
        }
        place -= (1 << (bits - 1)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::exact::{Keys, Outcome, Pick, Search, Strategy};
    use super::super::random::Random;
    use super::super::{Item, verify};
    use super::*;
    use ringfence_alias::Problem;
    use ringfence_alias::internals::Relation;

    fn generated(random: &mut Random, round: u64) -> Vec<Item> {
        let mut below = |end: u64| (random.next() * end as f64) as u64;
        let count = 6 + below(7);
        let item = |_| {
            let (lower, log2) = (below(8), below(1 + round % 5));
            Item::new((1 + below(30)) << (round % 3), lower, lower + 1 + below(5)).aligned(1 << log2)
        };
        (0..count).map(item).collect()
    }

    #[test]
    fn what_it_ends_at_is_what_the_other_search_calls_the_best() {
        let mut random = Random(11);
        for round in 0..400 {
            let items = generated(&mut random, round);
            let problem = Problem::new(&items).unwrap();
            let Relation::Intervals(shape) = problem.relation() else { panic!("one queue gives intervals") };
            let scale = Scale::new(problem.sizes());
            let mut learner = Learner::new(shape, &scale, &problem.sizes().size);
            let mut height = items.iter().map(|item| item.size + item.alignment).sum::<u64>();
            while learner.search(height - 1, u64::MAX / 2, &mut |_| true) == Outcome::Solved {
                let offsets = learner.offsets();
                height = problem.sizes().height(&offsets);
                verify(&items, &offsets, height).unwrap();
            }
            let mut search = Search::<_, i64>::new(shape, &scale, &problem.sizes().size);
            let Strategy { pick, focus, keys } =
                Strategy { pick: Pick::Lowest, focus: true, keys: Keys::FullDurationArea };
            (search.pick, search.focus) = (pick, focus);
            let loads = vec![0; shape.section_count];
            search.rank = keys.ranks(&problem, shape, &loads, || 0.0);
            let outcome = |search: &mut Search<'_, _, i64>, capacity| search.run(capacity, u64::MAX / 2, &mut |_| true);
            assert_eq!(outcome(&mut search, height), Outcome::Solved, "round {round}");
            assert_eq!(outcome(&mut search, height - 1), Outcome::Failed, "round {round}");
        }
    }

    #[test]
    fn clauses_are_dropped_and_nothing_is_lost_by_it() {
        let mut random = Random(5);
        let mut dropped = 0;
        for round in 0..100 {
            let items: Vec<Item> = (0..2).flat_map(|_| generated(&mut random, round)).take(14).collect();
            let problem = Problem::new(&items).unwrap();
            let Relation::Intervals(shape) = problem.relation() else { panic!("one queue gives intervals") };
            let scale = Scale::new(problem.sizes());
            let heights = [CLAUSES, 40].map(|kept_max| {
                let mut learner = Learner::new(shape, &scale, &problem.sizes().size);
                learner.kept_max = kept_max;
                let mut height = items.iter().map(|item| item.size + item.alignment).sum::<u64>();
                while learner.search(height - 1, u64::MAX / 2, &mut |_| true) == Outcome::Solved {
                    height = problem.sizes().height(&learner.offsets());
                }
                dropped += u32::from(learner.kept_max != kept_max);
                height
            });
            assert_eq!(heights[0], heights[1], "round {round}");
        }
        assert!(dropped > 0, "no clause was dropped");
    }
}
