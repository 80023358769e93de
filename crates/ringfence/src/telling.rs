//! What slow paths tell a subscriber of the crate `tracing`, if the feature of that name is on. Without it, nothing is
//! compiled in. Target: `ringfence`.
//!
//! | span or event | level | when |
//! |---|---|---|
//! | `allocate_memory` | debug span | the driver makes a memory object: milliseconds, on some drivers |
//! | `free_memory` | debug span | the driver takes one back |
//! | `wait` | debug span | the host waits for the device |
//! | `out of memory` | warning | no memory type had room, or the driver refused |
//! | `device lost` | error | a `reclaim` saw it |

/// A span until the end of the block.
macro_rules! slow {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "ringfence", $name, $($field = $value),*).entered();
    };
}

/// An event of a level: `warn` or `error`.
macro_rules! tell {
    ($level:ident, $text:literal $(, $($fields:tt)+)?) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "ringfence", { $($($fields)+)? }, $text);
    };
}

pub(crate) use {slow, tell};
