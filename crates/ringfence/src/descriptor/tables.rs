//! Which tables a frame has already, so that identical ones share one copy.
//!
//! A table's content is the row of numbers of its descriptors, each unique to one write of one slot; so two tables are
//! identical iff their rows are. Rows are compared, not only their hashes.
//!
//! | operation | cost |
//! |---|---|
//! | find, add | O(slots of the table), no host allocation once it has grown to what a frame needs |

use std::collections::HashMap;

#[derive(Clone, Copy)]
struct Row {
    /// Where the row of contents begins.
    at: u32,
    len: u32,
    /// The slot where its copy begins.
    start: u32,
}

/// The tables of one frame.
#[derive(Default)]
pub(super) struct TableCache {
    rows: HashMap<u64, Row>,
    contents: Vec<u64>,
}

impl TableCache {
    /// Where a copy of this table begins, if there is one.
    pub(super) fn find(&self, contents: impl Iterator<Item = u64> + Clone) -> Option<u32> {
        let row = self.rows.get(&hash(contents.clone()))?;
        let held = &self.contents[row.at as usize..(row.at + row.len) as usize];
        contents.eq(held.iter().copied()).then_some(row.start)
    }

    /// Notes a copy. A row whose hash another row has replaces it: that only costs a copy.
    pub(super) fn add(&mut self, contents: impl Iterator<Item = u64> + Clone, start: u32) {
        let at = self.contents.len() as u32;
        self.contents.extend(contents.clone());
        let len = self.contents.len() as u32 - at;
        self.rows.insert(hash(contents), Row { at, len, start });
    }

    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.contents.clear();
    }
}

fn hash(contents: impl Iterator<Item = u64>) -> u64 {
    contents.fold(0x9e37_79b9_7f4a_7c15, |hash: u64, content| {
        (hash.rotate_left(5) ^ content).wrapping_mul(0xff51_afd7_ed55_8ccd)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_by_all_of_its_content() {
        let mut tables = TableCache::default();
        tables.add([1, 2, 3].into_iter(), 7);
        tables.add([1, 2].into_iter(), 9);
        assert_eq!(tables.find([1, 2, 3].into_iter()), Some(7));
        assert_eq!(tables.find([1, 2].into_iter()), Some(9));
        assert_eq!(tables.find([2, 1].into_iter()), None);
        assert_eq!(tables.find([1, 2, 3, 4].into_iter()), None);
        tables.clear();
        assert_eq!(tables.find([1, 2].into_iter()), None);
    }

    #[test]
    fn equal_hashes_are_not_taken_for_equal_tables() {
        let mut tables = TableCache::default();
        tables.add([5].into_iter(), 1);
        let row = *tables.rows.values().next().expect("one row");
        tables.rows.insert(hash([6].into_iter()), row);
        assert_eq!(tables.find([6].into_iter()), None);
    }
}
