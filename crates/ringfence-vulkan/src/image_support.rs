//! Cache of the device's support of images. The device's answers never change. A kind of image is queried again only if
//! other kinds have taken its four slots, if the query failed with another error than `FORMAT_NOT_SUPPORTED`, or if
//! several threads query the kind at the same time.
//!
//! ```text
//!   format, type, tiling, usage, flags ── hash ──▶ one of four slots in a row    written once, then only read
//!                                                    └─ all four are taken: the driver is queried
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `of` | O(1); a driver call for a kind that is not cached |

use std::sync::OnceLock;

use ash::vk;

/// Number of slots; larger than the number of kinds of image that most programs create.
const SLOTS: usize = 256;
/// Number of slots in which a kind of image may be stored.
const PROBES: usize = 4;

/// The parameters of the query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageQuery {
    pub(super) format: vk::Format,
    pub(super) image_type: vk::ImageType,
    pub(super) tiling: vk::ImageTiling,
    pub(super) usage: vk::ImageUsageFlags,
    pub(super) flags: vk::ImageCreateFlags,
}

impl ImageQuery {
    pub(super) fn of(info: &vk::ImageCreateInfo<'_>) -> Self {
        let vk::ImageCreateInfo { format, image_type, tiling, usage, flags, .. } = *info;
        Self { format, image_type, tiling, usage, flags }
    }

    fn slot(&self) -> usize {
        let words = [self.format.as_raw() as u32, self.usage.as_raw(), self.flags.as_raw()];
        let kinds = (self.image_type.as_raw() << 8 ^ self.tiling.as_raw()) as u32;
        let mixed = words.into_iter().fold(kinds, |sum, word| (sum.rotate_left(11) ^ word).wrapping_mul(0x9e37_79b1));
        mixed as usize >> 24
    }
}

type Answer = Result<vk::ImageFormatProperties, vk::Result>;

/// Cached answers of the driver about kinds of image, in a hash table without locks.
pub(super) struct ImageSupport(Box<[OnceLock<(ImageQuery, Answer)>]>);

impl ImageSupport {
    pub(super) fn new() -> Self {
        Self((0..SLOTS).map(|_| OnceLock::new()).collect())
    }

    /// Returns the cached answer for a kind of image, or calls `ask`.
    pub(super) fn of(&self, query: ImageQuery, ask: impl FnOnce(&ImageQuery) -> Answer) -> Answer {
        let first = query.slot();
        for slot in (0..PROBES).map(|probe| &self.0[(first + probe) % SLOTS]) {
            match slot.get() {
                Some((held, answer)) if *held == query => return *answer,
                Some(_) => {}
                None => {
                    let answer = ask(&query);
                    // Other errors may be temporary, so they are not cached.
                    if matches!(answer, Ok(_) | Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)) {
                        _ = slot.set((query, answer));
                    }
                    return answer;
                }
            }
        }
        ask(&query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(usage: u32) -> ImageQuery {
        ImageQuery {
            format: vk::Format::R8G8B8A8_UNORM,
            image_type: vk::ImageType::TYPE_2D,
            tiling: vk::ImageTiling::OPTIMAL,
            usage: vk::ImageUsageFlags::from_raw(usage),
            flags: vk::ImageCreateFlags::empty(),
        }
    }

    fn answer(query: &ImageQuery) -> Answer {
        Ok(vk::ImageFormatProperties { max_mip_levels: query.usage.as_raw(), ..Default::default() })
    }

    #[test]
    fn each_kind_gets_its_own_answer_however_many_there_are() {
        let support = ImageSupport::new();
        let mut asked = 0;
        for round in 0..2 {
            for usage in 0..2 * SLOTS as u32 {
                let found = support.of(query(usage), |query| {
                    asked += 1;
                    answer(query)
                });
                assert_eq!(found.ok().map(|found| found.max_mip_levels), Some(usage), "round {round}");
            }
        }
        assert!(asked < 4 * SLOTS, "most cached answers are not queried again: {asked}");
        let other = ImageQuery { format: vk::Format::D32_SFLOAT, ..query(1) };
        assert_eq!(
            support.of(other, |_| Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)).err(),
            Some(vk::Result::ERROR_FORMAT_NOT_SUPPORTED)
        );
    }

    #[test]
    fn a_refusal_is_kept_and_a_failure_that_may_pass_is_not() {
        let support = ImageSupport::new();
        let refused = vk::Result::ERROR_FORMAT_NOT_SUPPORTED;
        assert_eq!(support.of(query(1), |_| Err(refused)).err(), Some(refused));
        assert_eq!(support.of(query(1), answer).err(), Some(refused));
        assert_eq!(
            support.of(query(2), |_| Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY)).err(),
            Some(vk::Result::ERROR_OUT_OF_HOST_MEMORY)
        );
        assert!(support.of(query(2), answer).is_ok());
    }
}
