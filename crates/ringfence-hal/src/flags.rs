//! Sets of flags, for this crate and the backends.

/// A set of flags over `u32`, without a dependency: `union`, `contains`, `|`.
#[doc(hidden)]
#[macro_export]
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $bit:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*
            const NAMES: &'static [(&'static str, Self)] = &[$((stringify!($flag), Self::$flag)),*];

            /// No flag.
            #[must_use]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The flags of both.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Whether every flag of `other` is here.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether some flag of `other` is here.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The flags that are here and not in `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// How many flags are here.
            #[must_use]
            pub const fn count(self) -> u32 {
                self.0.count_ones()
            }

            /// Whether no flag is here.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The flags as bits.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// The names of the flags that are here.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| *name)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_list().entries(self.names()).finish()
            }
        }
    };
}
