use ringfence_core::size_class::SizeClasses;

use super::*;

#[test]
fn seed_003_03_a_class_is_the_fine_size_class() {
    for (size, alignment) in (0..=SLOT_BYTES_MAX + 2).flat_map(|size| (0..18).map(move |log| (size, 1 << log))) {
        let fine = SizeClasses::FINE.class(size, alignment).ok().filter(|bytes| *bytes <= SLOT_BYTES_MAX);
        assert_eq!(Class::of(size, alignment).map(|class| class.bytes), fine, "{size} aligned to {alignment}");
    }
    assert_eq!(Class::of(300, 48), None, "not a power of two");
    // Each size has one index, and the indices are in the order of the sizes.
    let mut classes: Vec<_> = (1..=SLOT_BYTES_MAX).filter_map(|size| Class::of(size, 1)).collect();
    classes.dedup();
    assert!(classes.iter().map(|class| class.index).eq(0..CLASS_COUNT as u32), "{classes:?}");
    assert!(classes.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
    assert!(classes.iter().all(|class| Class::bytes_of(class.index) == class.bytes));
}

#[test]
fn every_class_has_an_index_of_its_own() {
    let classes: Vec<_> = (1..=SLOT_BYTES_MAX).filter_map(|size| Class::of(size, 1)).collect();
    let mut distinct = classes.clone();
    distinct.dedup();
    assert_eq!(distinct.len(), CLASS_COUNT);
    assert!(distinct.iter().enumerate().all(|(at, class)| class.index as usize == at));
    assert_eq!(Class::of(300, 256), Some(Class { index: 2, bytes: 512 }), "384 is not a multiple of 256");
    assert_eq!(Class::of(SLOT_BYTES_MAX + 1, 1), None);
    assert_eq!(Class::of(1, 128 << 10), None);
}
