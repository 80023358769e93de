use super::*;
use crate::device::ResourceClass;

fn needs(size: u64, alignment: u64) -> Requirements {
    Requirements {
        size,
        alignment,
        memory_type_bits: 1,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

#[test]
fn margins_keep_the_alignment_and_the_atoms() {
    let margins = |bytes, alignment, atom| Margins::of(bytes, &needs(100, alignment), atom);
    assert_eq!(margins(0, 256, 64), Margins::default());
    assert_eq!(margins(1, 4, 1), Margins { front: 16, back: 16 });
    assert_eq!(margins(40, 256, 1), Margins { front: 256, back: 48 });
    assert_eq!(margins(40, 64, 64), Margins { front: 64, back: 64 });
    assert_eq!(margins(40, 64, 64).around(needs(128, 64)).size, 256);
    assert_eq!((margins(40, 256, 1).inside(1000), margins(0, 256, 1).inside(1000)), (696, 1000));
}

#[test]
fn damage_is_counted_from_the_range() {
    let mut bytes = [GUARD; 32];
    assert!(damage(Side::After, &bytes).is_none());
    (bytes[3], bytes[20]) = (1, 2);
    let after = damage(Side::After, &bytes).unwrap();
    assert_eq!((after.distance_bytes, after.damaged_bytes, after.found), (3, 2, 1));
    let before = damage(Side::Before, &bytes).unwrap();
    assert_eq!((before.distance_bytes, before.damaged_bytes, before.found), (11, 2, 2));
}
