//! Analyses failures, and learns clauses from them.

use super::{Clause, FADING, Learner, Literal, NONE, Reason, WEIGHT_MAX};
use alloc::vec::Vec;

impl Learner {
    /// Returns the lower bound that holds without any decision.
    pub(super) fn root_low(&self, item: usize) -> i64 {
        self.root(self.low_at[item], self.low[item])
    }

    pub(super) fn root_high(&self, item: usize) -> i64 {
        self.root(self.high_at[item], self.high[item])
    }

    fn root(&self, mut at: u32, mut value: i64) -> i64 {
        while at != NONE && self.trail[at as usize].level > 0 {
            (value, at) = (self.trail[at as usize].value_before, self.trail[at as usize].before);
        }
        value
    }

    /// Adds the facts that a literal follows from. The literal may be weaker than the entry that made it true.
    pub(super) fn explain(&self, literal: Literal, reason: Reason, why: &mut Vec<Literal>) {
        match reason {
            Reason::Decision => {}
            Reason::Clause(clause) => {
                let literals = &self.clauses[clause as usize].literals[1..];
                why.extend(literals.iter().map(|&literal| self.not(literal)));
            }
            Reason::Facts(start, end) => why.extend_from_slice(&self.facts[start as usize..end as usize]),
            Reason::Edge(edge) => {
                let (lower, upper) = self.two_of(edge);
                why.push(Literal::Below(edge));
                why.push(match literal {
                    Literal::AtLeast(_, low) => {
                        Literal::AtLeast(lower as u32, self.up(lower, low - self.mask[upper] - self.size[lower]))
                    }
                    Literal::AtMost(_, high) => {
                        let high = high + self.mask[lower] + self.size[lower];
                        Literal::AtMost(upper as u32, high & !self.mask[upper])
                    }
                    Literal::Below(_) => return,
                });
            }
        }
    }

    /// Returns the entry that made a literal true. Returns [`NONE`] if the literal was true from the start.
    fn entry_of(&self, literal: Literal) -> u32 {
        let (mut at, item_value) = match literal {
            Literal::Below(literal) => return self.order_at[literal as usize / 2],
            Literal::AtLeast(item, low) => (self.low_at[item as usize], low),
            Literal::AtMost(item, high) => (self.high_at[item as usize], high),
        };
        let is_at_least = matches!(literal, Literal::AtLeast(..));
        while at != NONE {
            let entry = &self.trail[at as usize];
            let held = if is_at_least { entry.value_before >= item_value } else { entry.value_before <= item_value };
            if !held {
                break;
            }
            at = entry.before;
        }
        at
    }

    /// After a failure: learns a clause, goes back to the level at which the clause implies a literal, and sets this
    /// literal.
    pub(super) fn learn(&mut self) {
        self.failures += 1;
        self.left = self.left.saturating_sub(1);
        let last = self.conflict.iter().map(|&literal| self.level_of(literal)).max().unwrap_or(0);
        if last == 0 {
            self.is_over = true;
            return;
        }
        self.back_to(last as usize);
        let level = last;
        self.needed.resize(self.trail.len(), false);
        self.need.resize(self.trail.len(), 0);
        let mut why = core::mem::take(&mut self.conflict);
        let (mut now, mut earlier) = (0, Vec::new());
        let mut at = self.trail.len();
        loop {
            for literal in why.drain(..) {
                self.require(literal, level, &mut now, &mut earlier);
            }
            at -= 1;
            while !self.needed[at] || self.trail[at].level < level {
                at -= 1;
            }
            if now == 1 {
                break;
            }
            self.needed[at] = false;
            now -= 1;
            let (literal, reason) = (self.needed_literal(at), self.trail[at].reason);
            if let Reason::Clause(clause) = reason {
                self.bump_clause(clause as usize);
            }
            self.explain(literal, reason, &mut why);
        }
        self.conflict = why;
        self.conclude(at, earlier);
    }

    /// Records that the failure depends on a literal.
    fn require(&mut self, literal: Literal, level: u32, now: &mut usize, earlier: &mut Vec<u32>) {
        let entry = self.entry_of(literal);
        if entry == NONE || self.trail[entry as usize].level == 0 {
            return;
        }
        let at = entry as usize;
        let (is_new, value) = (!core::mem::replace(&mut self.needed[at], true), self.need[at]);
        self.need[at] = match literal {
            Literal::Below(literal) => {
                self.bump_pair(literal as usize / 2);
                0
            }
            Literal::AtLeast(_, low) => {
                if is_new {
                    low
                } else {
                    low.max(value)
                }
            }
            Literal::AtMost(_, high) => {
                if is_new {
                    high
                } else {
                    high.min(value)
                }
            }
        };
        if is_new {
            if self.trail[at].level == level { *now += 1 } else { earlier.push(entry) }
        }
    }

    /// Returns the part of an entry that is needed.
    fn needed_literal(&self, at: usize) -> Literal {
        match self.trail[at].literal {
            Literal::AtLeast(item, _) => Literal::AtLeast(item, self.need[at]),
            Literal::AtMost(item, _) => Literal::AtMost(item, self.need[at]),
            below @ Literal::Below(_) => below,
        }
    }

    /// Learns a clause: the entry `turning` or one of the entries of earlier levels is false.
    fn conclude(&mut self, turning: usize, mut earlier: Vec<u32>) {
        // The latest first.
        earlier.sort_unstable_by(|a, b| b.cmp(a));
        let (mut literals, mut level) = (Vec::new(), 0);
        let follows: Vec<bool> = earlier.iter().map(|&entry| self.follows(entry as usize)).collect();
        let mut follows = follows.into_iter();
        for entry in core::iter::once(turning).chain(earlier.into_iter().map(|entry| entry as usize)) {
            self.needed[entry] = false;
            if entry != turning && follows.next() == Some(true) {
                continue;
            }
            let literal = self.not(self.needed_literal(entry));
            if !literals.iter().any(|&other| is_within(literal, other)) {
                if literals.len() == 1 {
                    level = self.trail[entry].level;
                }
                literals.push(literal);
            }
        }
        self.fade();
        self.back_to(level as usize);
        let first = literals[0];
        let mut reason = Reason::Decision;
        if literals.len() > 1 {
            reason = Reason::Clause(self.clauses.len() as u32);
            self.keep(Clause { literals, weight: self.clause_bump });
        }
        if !self.set(first, reason) {
            self.learn();
        }
    }

    /// Returns `true` if the needed part of an entry follows from the needed parts of others.
    fn follows(&mut self, at: usize) -> bool {
        if matches!(self.trail[at].reason, Reason::Decision) {
            return false;
        }
        let mut why = core::mem::take(&mut self.conflict);
        why.clear();
        self.explain(self.needed_literal(at), self.trail[at].reason, &mut why);
        let follows = why.iter().all(|&literal| {
            let entry = self.entry_of(literal);
            if entry == NONE || self.trail[entry as usize].level == 0 {
                return true;
            }
            let at = entry as usize;
            self.needed[at]
                && match literal {
                    Literal::Below(_) => true,
                    Literal::AtLeast(_, low) => self.need[at] >= low,
                    Literal::AtMost(_, high) => self.need[at] <= high,
                }
        });
        self.conflict = why;
        follows
    }

    fn level_of(&self, literal: Literal) -> u32 {
        let entry = self.entry_of(literal);
        if entry == NONE { 0 } else { self.trail[entry as usize].level }
    }

    fn bump_pair(&mut self, pair: usize) {
        self.weight[pair] += self.bump;
    }

    fn bump_clause(&mut self, clause: usize) {
        self.clauses[clause].weight += self.clause_bump;
    }

    /// Increases the weight of later failures.
    fn fade(&mut self) {
        self.bump *= FADING;
        self.clause_bump *= FADING;
        if self.bump > WEIGHT_MAX {
            self.weight.iter_mut().for_each(|weight| *weight /= WEIGHT_MAX);
            self.clauses.iter_mut().for_each(|clause| clause.weight /= WEIGHT_MAX);
            self.bump /= WEIGHT_MAX;
            self.clause_bump /= WEIGHT_MAX;
        }
    }
}

/// Returns `true` if `literal` implies `other`.
fn is_within(literal: Literal, other: Literal) -> bool {
    match (literal, other) {
        (Literal::AtLeast(a, low), Literal::AtLeast(b, other)) => a == b && low >= other,
        (Literal::AtMost(a, high), Literal::AtMost(b, other)) => a == b && high <= other,
        _ => literal == other,
    }
}
