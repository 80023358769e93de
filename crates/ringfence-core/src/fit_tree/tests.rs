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
        for (nth, (size, leaf, value)) in steps.into_iter().enumerate() {
            let naive = leaves.iter().position(|leaf| *leaf >= size);
            prop_assert_eq!(tree.first(size), naive);
            // Every tenth step adds leaves.
            if nth % 10 == 9 {
                leaves.resize(leaves.len() + value as usize, 0);
                tree.reserve(leaves.len());
            }
            let leaf = leaf % leaves.len();
            leaves[leaf] = value;
            tree.set(leaf, value);
        }
    }
}
