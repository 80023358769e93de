//! Measurements of each frame. If a run has more frames than a page can show, several frames become one point.

/// The measurements of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FrameSample {
    /// Number of the frame.
    pub frame: u64,
    /// Number of bytes in use in the upload rings. Bytes are in use until the device has finished with them.
    pub ring_used_bytes: u64,
    /// Capacity of the upload rings, in bytes.
    pub ring_capacity_bytes: u64,
    /// Number of retired objects that wait for the device.
    pub retired_count: u64,
    /// Total size of the driver's memory objects, in bytes.
    pub reserved_bytes: u64,
    /// Total size of the ranges in use, in bytes.
    pub used_bytes: u64,
    /// Number of live objects.
    pub live_count: u64,
}

impl FrameSample {
    /// Returns the maximum of each measurement in `frames`. Its frame number is that of `frames[0]`.
    fn most(frames: &[Self]) -> Self {
        let mut most = frames[0];
        for frame in &frames[1..] {
            most.ring_used_bytes = most.ring_used_bytes.max(frame.ring_used_bytes);
            most.ring_capacity_bytes = most.ring_capacity_bytes.max(frame.ring_capacity_bytes);
            most.retired_count = most.retired_count.max(frame.retired_count);
            most.reserved_bytes = most.reserved_bytes.max(frame.reserved_bytes);
            most.used_bytes = most.used_bytes.max(frame.used_bytes);
            most.live_count = most.live_count.max(frame.live_count);
        }
        most
    }
}

/// Consecutive frames that are shown as one point.
pub(crate) struct Bucket {
    /// Index of the first frame.
    pub first: usize,
    /// Index of the last frame.
    pub last: usize,
    /// Maximum of each measurement in these frames.
    pub most: FrameSample,
}

/// Divides `frames` into at most `count_max` buckets of equal length; the last one may be shorter. A bucket has the
/// maxima of its frames, so peaks stay visible.
pub(crate) fn buckets(frames: &[FrameSample], count_max: usize) -> Vec<Bucket> {
    let length = frames.len().div_ceil(count_max).max(1);
    let bucket = |(index, run): (usize, &[FrameSample])| Bucket {
        first: index * length,
        last: index * length + run.len() - 1,
        most: FrameSample::most(run),
    };
    frames.chunks(length).enumerate().map(bucket).collect()
}
