//! Where a snapshot comes from: not every source knows every figure.

/// The origin of a snapshot. Figures that the origin does not know are shown as unknown, not as 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The allocator, which knows everything.
    #[default]
    Allocator,
    /// The events of a trace up to its end. A trace holds no waits for the device.
    Trace,
    /// A dump of the Vulkan Memory Allocator: no driver calls, no retired objects, no high-water marks, no upload
    /// rings, no descriptors.
    VmaDump,
    /// A snapshot of an allocator whose file ends before the calls to the driver.
    Part,
}

impl Source {
    /// Why a figure is unknown: a note under it.
    pub(crate) fn lacks(self) -> &'static str {
        match self {
            Self::Allocator | Self::Trace => "",
            Self::VmaDump => "not in a dump of VMA",
            Self::Part => "lost with the file’s end",
        }
    }

    /// Returns `true` if calls to the driver and retired objects are counted.
    pub(crate) fn counts_calls(self) -> bool {
        matches!(self, Self::Allocator | Self::Trace)
    }
}
