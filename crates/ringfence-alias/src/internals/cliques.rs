//! Cliques of clashing items: sets in which every two items clash.
//!
//! ```text
//!   clashes   a–b  a–c  b–c  c–d        grown from a: a, b, c; grown from d: d, c
//! ```
//!
//! Growing one clique costs O(members · n) around one item, and O(members² · n) around a clash.

use super::shape::{Bits, Cliques, ones};
use super::sizes::Sizes;
use alloc::vec;
use alloc::vec::Vec;

/// Grows a clique around `members`: repeatedly adds the largest item that clashes with the whole clique. If `heaviest`
/// is `false`, adds the item with the most uncovered clashes with the clique instead.
pub fn grow(clashes: &Bits, covered: &Bits, sizes: &Sizes, members: &[usize], heaviest: bool) -> Vec<u32> {
    let mut clique: Vec<u32> = members.iter().map(|&item| item as u32).collect();
    let mut candidates = clashes.row(members[0]).to_vec();
    for &member in members {
        candidates.iter_mut().zip(clashes.row(member)).for_each(|(candidate, clash)| *candidate &= clash);
        candidates[member / 64] &= !(1 << (member % 64));
    }
    let fresh =
        |item: usize, clique: &[u32]| clique.iter().filter(|&&member| !covered.get(item, member as usize)).count();
    while let Some(item) = ones(&candidates).max_by_key(|&item| {
        (if heaviest { 0 } else { fresh(item, &clique) }, sizes.size[item], core::cmp::Reverse(item))
    }) {
        clique.push(item as u32);
        candidates.iter_mut().zip(clashes.row(item)).for_each(|(candidate, clash)| *candidate &= clash);
        candidates[item / 64] &= !(1 << (item % 64));
    }
    clique
}

/// Converts the cliques to lists of sections by item.
pub fn listed(clashes: Bits, cliques: &[Vec<u32>], count: usize) -> Cliques {
    let mut of_item = vec![Vec::new(); count];
    for (section, members) in cliques.iter().enumerate() {
        members.iter().for_each(|&item| of_item[item as usize].push(section as u32));
    }
    let mut starts = vec![0];
    let mut lists = Vec::new();
    for sections in of_item {
        lists.extend(sections);
        starts.push(lists.len() as u32);
    }
    Cliques { clashes, lists, starts, section_count: cliques.len(), is_recurring: false }
}
