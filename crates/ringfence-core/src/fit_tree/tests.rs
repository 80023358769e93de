//! A test that the tree agrees with a linear search.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn the_first_leaf_that_holds_it_is_found(
        mut leaves in prop::collection::vec(0_u64..20, 1..40),
        steps in prop::collection::vec((1_u64..22, 0_usize..40, 0_u64..20), 1..60),
    ) {
        let mut tree = FitTree::new(leaves.iter().copied());
        for (size, leaf, value) in steps {
            let naive = leaves.iter().position(|leaf| *leaf >= size);
            prop_assert_eq!(tree.first(size), naive);
            let leaf = leaf % leaves.len();
            leaves[leaf] = value;
            tree.set(leaf, value);
        }
    }
}
