//! Measurements of each frame, and the reduction of a long run to as many points as a page can show.

/// The measurements of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FrameSample {
    /// Number of the frame.
    pub frame: u64,
    /// Bytes of the upload rings that wait for the device.
    pub ring_used_bytes: u64,
    /// Capacity of the upload rings, in bytes.
    pub ring_capacity_bytes: u64,
    /// Number of retired objects that wait for the device.
    pub retired_count: u64,
    /// Bytes of the driver's memory objects.
    pub reserved_bytes: u64,
    /// Bytes in use by resources.
    pub used_bytes: u64,
    /// Number of live objects.
    pub live_count: u64,
}

impl FrameSample {
    /// Returns the maximum of each figure in `frames`, with the first frame's number.
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

/// A run of frames that is shown as one point.
pub(crate) struct Bucket {
    /// Index of the first frame.
    pub first: usize,
    /// Index of the last frame.
    pub last: usize,
    /// Maximum of each figure.
    pub most: FrameSample,
}

/// Splits `frames` into at most `count_max` runs of equal length. Peaks are kept, because each run stores its maxima.
pub(crate) fn buckets(frames: &[FrameSample], count_max: usize) -> Vec<Bucket> {
    let length = frames.len().div_ceil(count_max).max(1);
    let bucket = |(index, run): (usize, &[FrameSample])| Bucket {
        first: index * length,
        last: index * length + run.len() - 1,
        most: FrameSample::most(run),
    };
    frames.chunks(length).enumerate().map(bucket).collect()
}
