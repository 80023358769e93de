//! Checks of the structure's rules, for tests. O(spans).

use super::Tlsf;
use super::classes::class_of;
use super::deferred::DEFERRED;
use super::lists::SENTINEL;
use crate::range::{Invalid, Serial};

/// Numbers of spans that a walk in address order has found.
struct Walked {
    count: usize,
    free_count: usize,
    deferred_count: usize,
}

impl Tlsf {
    /// Checks all rules.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let spans = self.validate_spans()?;
        let listed = self.validate_lists()?;
        let deferred = self.validate_deferred()?;
        Invalid::unless(deferred == spans.deferred_count, "every deferred span is in a list", deferred as u64)?;
        let mut recycled = 0;
        let mut slot = self.recycled;
        while slot != SENTINEL {
            let node = self.nodes.get(slot as usize);
            let node = node.ok_or(Invalid { rule: "a recycled slot exists", at: slot.into() })?;
            recycled += 1;
            Invalid::unless(!node.is_used() && recycled < self.nodes.len(), "recycled slots are free", slot.into())?;
            slot = node.next;
        }
        Invalid::unless(listed == spans.free_count, "every free span is in a list", listed as u64)?;
        Invalid::unless(spans.count + recycled + 1 == self.nodes.len(), "no slot is lost", recycled as u64)
    }

    /// Checks the deferred lists and returns the number of their nodes.
    fn validate_deferred(&self) -> Result<usize, Invalid> {
        let mut listed = 0;
        for (class, mut slot, count) in self.deferred.lists() {
            let before = listed;
            while slot != SENTINEL {
                let (node, link) = (*self.node(slot), self.lists.link(slot));
                Invalid::unless(self.is_deferred(slot), "a deferred list has deferred spans only", node.offset)?;
                let size = self.node(node.next).offset - node.offset;
                Invalid::unless(
                    u64::from(link.high & !DEFERRED) == size,
                    "a deferred span stores its size",
                    node.offset,
                )?;
                Invalid::unless(class_of(size) == class, "a deferred span is in the list of its class", node.offset)?;
                listed += 1;
                Invalid::unless(listed < self.nodes.len(), "the deferred lists have no cycle", node.offset)?;
                slot = link.low;
            }
            Invalid::unless(listed - before == count as usize, "a class counts its deferred spans", class.into())?;
        }
        Invalid::unless(listed == self.deferred.count() as usize, "the deferred spans are counted", listed as u64)?;
        Ok(listed)
    }

    fn validate_spans(&self) -> Result<Walked, Invalid> {
        let sentinel = *self.node(SENTINEL);
        Invalid::unless(sentinel.is_used() && sentinel.offset == self.capacity, "the sentinel closes the circle", 0)?;
        let first = self.node(sentinel.next);
        Invalid::unless(sentinel.next == SENTINEL || first.offset == 0, "the first span begins at 0", first.offset)?;
        let mut walked = Walked { count: 0, free_count: 0, deferred_count: 0 };
        let (mut free, mut previous, mut slot) = (0, SENTINEL, sentinel.next);
        while slot != SENTINEL {
            let node = *self.node(slot);
            let next = *self.node(node.next);
            Invalid::unless(node.prev() == previous, "address links are symmetric", node.offset)?;
            Invalid::unless(next.offset > node.offset, "offsets rise", node.offset)?;
            Invalid::unless(node.is_used() || next.is_used(), "free neighbours are merged", node.offset)?;
            walked.count += 1;
            Invalid::unless(walked.count < self.nodes.len(), "the walk returns to the sentinel", node.offset)?;
            if self.is_deferred(slot) {
                walked.deferred_count += 1;
                free += next.offset - node.offset;
            } else if node.is_used() {
                let serial = Serial::from_u64(self.lists.link(slot).serial_number());
                Invalid::unless(serial.is_some(), "a used node has a serial", node.offset)?;
            } else {
                walked.free_count += 1;
                free += next.offset - node.offset;
            }
            (previous, slot) = (slot, node.next);
        }
        Invalid::unless(sentinel.prev() == previous, "the last span is before the sentinel", self.capacity)?;
        Invalid::unless(free == self.free, "the free size is the sum of the free and deferred spans", free)?;
        let used = walked.count - walked.free_count - walked.deferred_count;
        Invalid::unless(used == self.live, "the live count is the number of used spans", used as u64)?;
        Ok(walked)
    }

    /// Checks the free lists and returns the number of their nodes.
    fn validate_lists(&self) -> Result<usize, Invalid> {
        let (base, links) = (self.lists.base, &self.lists.links);
        let sentinel = self.lists.link(SENTINEL);
        Invalid::unless((sentinel.high, sentinel.low) == (base, base), "the sentinel's link points to itself", 0)?;
        Invalid::unless(links.len() == base as usize + self.nodes.len(), "each node has a link", links.len() as u64)?;
        let bits = self.lists.words.iter().map(|bits| bits.count_ones()).sum::<u32>();
        let heads = links[..base as usize].iter().enumerate();
        let filled = heads.clone().filter(|&(class, head)| head.low as usize != class).count();
        Invalid::unless(bits as usize == filled, "only classes with a span have a bit", bits.into())?;
        let mut listed = 0;
        for (class, head) in heads {
            let bit = self.lists.words[class / 64] >> (class % 64) & 1 == 1;
            Invalid::unless(
                bit == (head.low as usize != class),
                "a class has its bit iff it has a span",
                class as u64,
            )?;
            let (mut before, mut at) = (class as u32, head.low);
            while at as usize != class {
                Invalid::unless(at > base, "a list has one head", at.into())?;
                let (node, link) = (*self.node(at - base), links[at as usize]);
                Invalid::unless(!node.is_used(), "a free list has free spans only", node.offset)?;
                Invalid::unless(link.high == before, "list links are symmetric", node.offset)?;
                let size = self.node(node.next).offset - node.offset;
                Invalid::unless(class_of(size) as usize == class, "a span is in the list of its class", node.offset)?;
                listed += 1;
                Invalid::unless(listed < self.nodes.len(), "the free lists have no cycle", node.offset)?;
                (before, at) = (at, link.low);
            }
            Invalid::unless(head.high == before, "a head links to the last span", class as u64)?;
        }
        Ok(listed)
    }
}
