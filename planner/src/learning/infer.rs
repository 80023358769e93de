//! Propagation: over pairs, then clauses, then sections, until no new literal follows.

use super::{Learner, Literal, NONE, Reason};

impl Learner {
    /// Propagates all consequences. Returns `false` on a contradiction, and sets `conflict`.
    pub(super) fn propagate(&mut self) -> bool {
        loop {
            while self.looked < self.trail.len() {
                let literal = self.trail[self.looked].literal;
                self.looked += 1;
                let went_well = match literal {
                    Literal::Below(literal) => self.after_order(literal),
                    Literal::AtLeast(item, _) => self.after_low(item as usize),
                    Literal::AtMost(item, _) => self.after_high(item as usize),
                };
                if !went_well || !self.look_at_clauses(literal) {
                    return false;
                }
            }
            let Some(section) = self.queue.pop() else { return true };
            self.dirty[section as usize] = false;
            if !self.look_at_section(section as usize) {
                return false;
            }
        }
    }

    fn mark(&mut self, item: usize) {
        for &section in &self.sections[item] {
            if !core::mem::replace(&mut self.dirty[section as usize], true) {
                self.queue.push(section);
            }
        }
    }

    fn after_order(&mut self, literal: u32) -> bool {
        let (lower, upper) = self.two_of(literal);
        self.mark(lower);
        self.raise(literal, lower, upper)
            && self.sink(literal, lower, upper)
            && self.order_others(literal, lower, upper)
    }

    /// Applies transitivity: if a is below b and b is below c, then a is below c, for pairs that clash. This excludes
    /// cycles. Raising the items of a cycle one by one would find the contradiction only slowly.
    fn order_others(&mut self, literal: u32, lower: usize, upper: usize) -> bool {
        let count = self.size.len();
        self.looks += self.near[lower].len() as u64;
        for place in 0..self.near[lower].len() {
            let (other, below_other) = self.near[lower][place];
            let with_upper = self.below[upper * count + other as usize];
            if with_upper == NONE {
                continue;
            }
            let (since, follows) = if self.is_below[with_upper as usize] {
                (with_upper, below_other)
            } else if self.is_below[below_other as usize ^ 1] {
                (below_other ^ 1, with_upper ^ 1)
            } else {
                continue;
            };
            if self.is_below[follows as usize] {
                continue;
            }
            let start = self.facts.len() as u32;
            self.facts.extend([literal, since].map(Literal::Below));
            if !self.set(Literal::Below(follows), Reason::Facts(start, start + 2)) {
                return false;
            }
        }
        true
    }

    fn raise(&mut self, literal: u32, lower: usize, upper: usize) -> bool {
        let low = self.up(upper, self.low[lower] + self.size[lower]);
        low <= self.low[upper] || self.set(Literal::AtLeast(upper as u32, low), Reason::Edge(literal))
    }

    fn sink(&mut self, literal: u32, lower: usize, upper: usize) -> bool {
        let high = (self.high[upper] - self.size[lower]) & !self.mask[lower];
        high >= self.high[lower] || self.set(Literal::AtMost(lower as u32, high), Reason::Edge(literal))
    }

    fn after_low(&mut self, item: usize) -> bool {
        self.mark(item);
        self.looks += self.near[item].len() as u64;
        for place in 0..self.near[item].len() {
            let (other, literal) = self.near[item][place];
            let other = other as usize;
            let went_well = if self.is_below[literal as usize] {
                self.raise(literal, item, other)
            } else if !self.is_below[literal as usize ^ 1] && self.low[item] + self.size[item] > self.high[other] {
                self.part(item, other, literal ^ 1)
            } else {
                true
            };
            if !went_well {
                return false;
            }
        }
        true
    }

    fn after_high(&mut self, item: usize) -> bool {
        self.mark(item);
        self.looks += self.near[item].len() as u64;
        for place in 0..self.near[item].len() {
            let (other, literal) = self.near[item][place];
            let other = other as usize;
            let went_well = if self.is_below[literal as usize ^ 1] {
                self.sink(literal ^ 1, other, item)
            } else if !self.is_below[literal as usize] && self.low[other] + self.size[other] > self.high[item] {
                self.part(other, item, literal)
            } else {
                true
            };
            if !went_well {
                return false;
            }
        }
        true
    }

    /// Sets `literal`: `other` is below `one`, because `one` cannot be below `other`.
    fn part(&mut self, one: usize, other: usize, literal: u32) -> bool {
        let start = self.facts.len() as u32;
        let end = self.low[one] + self.size[one];
        // Weakens the two bounds to the needed parts.
        let (root_low, root_high) = (self.root_low(one), self.root_high(other));
        let (low, high) = if root_low + self.size[one] > self.high[other] {
            (root_low, root_low + self.size[one] - 1)
        } else if end > root_high {
            (root_high - self.size[one] + 1, root_high)
        } else {
            (self.high[other] - self.size[one] + 1, self.high[other])
        };
        let low = self.up(one, low);
        let high = high & !self.mask[other];
        self.facts.push(Literal::AtLeast(one as u32, low));
        self.facts.push(Literal::AtMost(other as u32, high.max(self.high[other])));
        self.set(Literal::Below(literal), Reason::Facts(start, start + 2))
    }

    /// Examines the clauses that watch a literal which is now false.
    fn look_at_clauses(&mut self, literal: Literal) -> bool {
        let (kind, place) = match literal {
            Literal::Below(literal) => (0, literal as usize),
            Literal::AtLeast(item, _) => (1, item as usize),
            Literal::AtMost(item, _) => (2, item as usize),
        };
        let mut watching = core::mem::take(&mut self.watches[kind][place]);
        let (mut kept, mut at, mut went_well) = (0, 0, true);
        while at < watching.len() {
            let clause = watching[at];
            at += 1;
            self.looks += 1;
            let stays = match self.look_at_clause(clause, kind, place) {
                Some(stays) => stays,
                None => {
                    went_well = false;
                    true
                }
            };
            if stays {
                watching[kept] = clause;
                kept += 1;
            }
            if !went_well {
                break;
            }
        }
        watching.copy_within(at.., kept);
        watching.truncate(kept + watching.len() - at);
        // Clauses that started to watch the same literal meanwhile stay as well.
        let came = core::mem::replace(&mut self.watches[kind][place], watching);
        self.watches[kind][place].extend(came);
        went_well
    }

    /// Returns `true` if the clause still watches this literal. Returns `None` if all literals of the clause are false.
    fn look_at_clause(&mut self, clause: u32, kind: usize, place: usize) -> Option<bool> {
        let literals = &self.clauses[clause as usize].literals;
        // Finds which of the two watched literals it is; both may concern one item.
        let watched = |at: usize| self.watched_at(literals[at]) == (kind, place) && self.is_false(literals[at]);
        let at = match (watched(0), watched(1)) {
            (true, _) => 0,
            (_, true) => 1,
            _ => return Some(true),
        };
        let other = literals[1 - at];
        if self.is_true(other) {
            return Some(true);
        }
        let open = (2..literals.len()).find(|&next| !self.is_false(literals[next]));
        if let Some(next) = open {
            let literals = &mut self.clauses[clause as usize].literals;
            literals.swap(at, next);
            let literal = literals[at];
            let stays = self.watched_at(literal) == (kind, place);
            if !stays {
                self.watch(literal, clause);
            }
            return Some(stays);
        }
        self.clauses[clause as usize].literals.swap(0, 1 - at);
        self.set(other, Reason::Clause(clause)).then_some(true)
    }

    /// Returns the list that contains the clauses that watch `literal`. The literals of this list are those that can
    /// make `literal` false.
    fn watched_at(&self, literal: Literal) -> (usize, usize) {
        match literal {
            Literal::Below(literal) => (0, literal as usize ^ 1),
            Literal::AtLeast(item, _) => (2, item as usize),
            Literal::AtMost(item, _) => (1, item as usize),
        }
    }

    pub(super) fn watch(&mut self, literal: Literal, clause: u32) {
        let (kind, place) = self.watched_at(literal);
        self.watches[kind][place].push(clause);
    }
}
