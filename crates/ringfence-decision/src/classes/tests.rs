//! The distance between ranges of different classes.

use super::*;
use crate::sim::Profile;

fn of(class_groups: [u8; 3], class_granularity_bytes: u64) -> Classes {
    Classes::new(&Capabilities { class_groups, class_granularity_bytes, ..Profile::h200().capabilities })
}

fn needs(class: ResourceClass) -> Requirements {
    let (prefers_dedicated, requires_dedicated) = (false, false);
    Requirements { size: 1000, alignment: 256, memory_type_bits: 1, class, prefers_dedicated, requires_dedicated }
}

#[test]
fn textures_have_their_pages_where_the_distance_is_small() {
    for bytes in [2, 64, 1024, 4096] {
        let classes = of([0, 1, 1], bytes);
        assert_eq!(classes.groups, [0, 0, 0]);
        for class in [ResourceClass::Texture, ResourceClass::RenderTarget] {
            let apart = classes.apart(needs(class));
            assert_eq!((apart.alignment, apart.size), (bytes.max(256), 1000_u64.next_multiple_of(bytes)));
        }
        assert_eq!(classes.apart(needs(ResourceClass::Buffer)), needs(ResourceClass::Buffer));
    }
}

#[test]
fn nothing_is_padded_where_classes_never_meet_or_need_no_distance() {
    for (groups, bytes) in [([0, 0, 0], 1), ([0, 1, 1], 8192), ([0, 1, 1], 1), ([0, 1, 2], 1), ([0, 1, 2], 64)] {
        let classes = of(groups, bytes);
        assert_eq!(classes.groups, groups);
        assert_eq!(classes.apart(needs(ResourceClass::Texture)), needs(ResourceClass::Texture), "{groups:?} {bytes}");
    }
}
