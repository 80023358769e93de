use ringfence_trace::HEAP_KINDS;

use crate::device::descriptors::HeapKind;

#[test]
fn kinds_of_heaps_have_the_numbers_and_the_names_of_the_format() {
    assert_eq!(HeapKind::ALL.map(|kind| kind.to_string()), HEAP_KINDS);
    assert!(HeapKind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
}
