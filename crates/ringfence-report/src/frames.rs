//! What is measured once a frame, and how a long run is thinned to what a page can show.

/// One frame of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct FrameSample {
    /// The frame's number.
    pub frame: u64,
    /// Bytes of the upload rings that wait for the device.
    pub ring_used_bytes: u64,
    /// Bytes that the upload rings hold at most.
    pub ring_capacity_bytes: u64,
    /// Objects that are retired and wait for the device.
    pub retired_count: u64,
    /// Bytes that were requested of the driver.
    pub reserved_bytes: u64,
    /// Bytes that resources were given.
    pub used_bytes: u64,
    /// Objects that are alive.
    pub live_count: u64,
}

impl FrameSample {
    /// The most of each figure in `frames`, under the first one's number.
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

/// A run of frames that is shown as one.
pub(crate) struct Bucket {
    /// The first frame's index.
    pub first: usize,
    /// The last frame's index.
    pub last: usize,
    /// The most of each figure.
    pub most: FrameSample,
}

/// `frames` in at most `count_max` equally long runs; a peak is never lost, as each run keeps its most.
pub(crate) fn buckets(frames: &[FrameSample], count_max: usize) -> Vec<Bucket> {
    let length = frames.len().div_ceil(count_max).max(1);
    let bucket = |(index, run): (usize, &[FrameSample])| Bucket {
        first: index * length,
        last: index * length + run.len() - 1,
        most: FrameSample::most(run),
    };
    frames.chunks(length).enumerate().map(bucket).collect()
}
