//! Finds identical tables of a frame, which share one copy.
//!
//! Each write of a slot has a unique number. The *row* of a table is the sequence of the numbers of its descriptors, so
//! two tables are identical if and only if their rows are equal. Rows are compared, not only their hashes.
//!
//! | operation | cost |
//! |---|---|
//! | find, add | O(slots of the table); no host allocation after the first frames |

use ringfence_core::sync::SyncPoint;
use smallvec::SmallVec;

use nohash_hasher::IntMap;

#[derive(Clone, Copy)]
struct Row {
    /// Index of the first number in `contents`.
    at: u32,
    len: u32,
    /// First slot of the table's copy.
    start: u32,
}

/// The tables of one frame.
#[derive(Default)]
pub(super) struct TableCache {
    rows: IntMap<u64, Row>,
    contents: Vec<u64>,
}

impl TableCache {
    /// Returns the first slot of a copy of this table, or `None` if there is no copy. `hash` is the hash of `contents`.
    pub(super) fn find(&self, hash: u64, contents: impl Iterator<Item = u64>) -> Option<u32> {
        let row = self.rows.get(&hash)?;
        let held = &self.contents[row.at as usize..(row.at + row.len) as usize];
        contents.eq(held.iter().copied()).then_some(row.start)
    }

    /// Adds a copy of a table. If an earlier row has the same hash, the new row replaces it. The earlier table may then
    /// be copied again, which is not an error.
    pub(super) fn add(&mut self, hash: u64, contents: impl Iterator<Item = u64>, start: u32) {
        let at = self.contents.len() as u32;
        contents.for_each(|content| self.contents.push(content));
        let len = self.contents.len() as u32 - at;
        self.rows.insert(hash, Row { at, len, start });
    }

    /// Removes all rows and keeps the host memory.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.contents.clear();
    }
}

/// The tables that all threads of a frame share, for at most eight frames.
#[derive(Default)]
pub(super) struct FrameTables(SmallVec<[SharedTables; 4]>);

struct SharedTables {
    /// The frame, and the number of the heap version that the frame uses.
    key: (SyncPoint, u64),
    tables: TableCache,
}

impl FrameTables {
    /// Largest number of frames. A further frame replaces the oldest frame, whose tables may then be copied again.
    const FRAMES: usize = 8;

    pub(super) fn of(&mut self, key: (SyncPoint, u64)) -> &mut TableCache {
        if let Some(at) = self.0.iter().position(|held| held.key == key) {
            return &mut self.0[at].tables;
        }
        if self.0.len() < Self::FRAMES {
            self.0.push(SharedTables { key, tables: TableCache::default() });
        } else {
            self.0.rotate_left(1);
            let newest = &mut self.0[Self::FRAMES - 1];
            newest.key = key;
            newest.tables.clear();
        }
        let newest = self.0.len() - 1;
        &mut self.0[newest].tables
    }
}

/// Returns the hash of a table's content.
pub(super) fn hash(contents: impl Iterator<Item = u64>) -> u64 {
    let mixed = contents.fold(0x9e37_79b9_7f4a_7c15, |hash: u64, content| {
        (hash.rotate_left(5) ^ content).wrapping_mul(0xff51_afd7_ed55_8ccd)
    });
    // The map uses the lowest and the highest bits.
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tables: &mut TableCache, contents: &[u64], start: u32) {
        tables.add(hash(contents.iter().copied()), contents.iter().copied(), start);
    }

    fn find(tables: &TableCache, contents: &[u64]) -> Option<u32> {
        tables.find(hash(contents.iter().copied()), contents.iter().copied())
    }

    #[test]
    fn a_table_is_found_by_all_of_its_content() {
        let mut tables = TableCache::default();
        add(&mut tables, &[1, 2, 3], 7);
        add(&mut tables, &[1, 2], 9);
        assert_eq!(find(&tables, &[1, 2, 3]), Some(7));
        assert_eq!(find(&tables, &[1, 2]), Some(9));
        assert_eq!(find(&tables, &[2, 1]), None);
        assert_eq!(find(&tables, &[1, 2, 3, 4]), None);
        tables.clear();
        assert_eq!(find(&tables, &[1, 2]), None);
    }

    #[test]
    fn equal_hashes_are_not_taken_for_equal_tables() {
        let mut tables = TableCache::default();
        add(&mut tables, &[5], 1);
        let row = *tables.rows.values().next().expect("one row");
        tables.rows.insert(hash([6].into_iter()), row);
        assert_eq!(find(&tables, &[6]), None);
    }

    #[test]
    fn the_tables_of_eight_frames_are_kept_and_the_oldest_are_replaced() {
        let mut frames = FrameTables::default();
        let key = |value: u64, version: u64| {
            (SyncPoint { timeline: ringfence_core::sync::TimelineId::new(1), value }, version)
        };
        for value in 1..=8 {
            add(frames.of(key(value, 0)), &[value], value as u32);
        }
        // The same frame with another version of the heap is another frame.
        assert_eq!(find(frames.of(key(8, 0)), &[8]), Some(8));
        for value in 1..=8 {
            assert_eq!(find(frames.of(key(value, 0)), &[value]), Some(value as u32), "frame {value}");
        }
        assert_eq!(find(frames.of(key(8, 1)), &[8]), None);
        assert_eq!(frames.0.len(), 8);
        assert_eq!(find(frames.of(key(2, 0)), &[2]), Some(2), "the second is the oldest now");
        assert_eq!(find(frames.of(key(8, 0)), &[8]), Some(8));
        assert_eq!(find(frames.of(key(1, 0)), &[1]), None, "the first was replaced");
        assert_eq!(find(frames.of(key(2, 0)), &[2]), None, "and then the second");
    }
}
