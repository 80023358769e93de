//! The origin of a snapshot. Some origins do not know all figures.

/// The origin of a snapshot. Figures that the origin does not know are shown as unknown, not as 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The allocator, which knows all figures.
    #[default]
    Allocator,
    /// The events of a trace up to its end. A trace does not record waits for the device.
    Trace,
    /// A dump of the Vulkan Memory Allocator. It contains no driver calls, retired objects, high-water marks, upload
    /// rings or descriptors.
    VmaDump,
    /// A snapshot of an allocator in a truncated file that ends before the driver calls.
    Part,
}

impl Source {
    /// Returns the note under an unknown figure: the reason why it is unknown.
    pub(crate) fn lacks(self) -> &'static str {
        match self {
            Self::Allocator | Self::Trace => "",
            Self::VmaDump => "not in a dump of VMA",
            Self::Part => "missing, because the file is truncated",
        }
    }

    /// Returns `true` if driver calls and retired objects are counted.
    pub(crate) fn counts_calls(self) -> bool {
        matches!(self, Self::Allocator | Self::Trace)
    }
}
