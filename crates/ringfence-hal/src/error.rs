//! Errors of a driver. If a description breaks a rule, the error names the rule, the requested number and the limit.

use std::fmt;

use super::api_result::ApiResult;

/// An error of the driver or of the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The host has no memory left.
    #[error("the host is out of memory")]
    OutOfHostMemory,
    /// The device has no memory left.
    #[error("the device is out of memory")]
    OutOfDeviceMemory,
    /// The number of live memory objects has reached the driver's limit.
    #[error("the driver's limit of memory objects is reached; free memory objects first")]
    TooManyObjects,
    /// Memory could not be mapped.
    #[error("the memory could not be mapped")]
    MapFailed,
    /// The device is lost: submitted work will never complete.
    #[error("the device is lost")]
    Lost,
    /// The device lacks a feature, or the request exceeds a limit of the device. The reason names the feature or the
    /// limit.
    #[error("the device does not support this: {0}")]
    Unsupported(Reason),
    /// The description is not valid.
    #[error("the description is not valid: {0}")]
    InvalidInfo(Reason),
    /// Another failure of Vulkan or Direct3D 12, with the call that failed.
    #[error("{0}")]
    Api(ApiResult),
    /// Another failure, as a code that the driver defines.
    #[error("the driver failed with code {0}")]
    Other(i64),
}

/// The rule that a request breaks, and the numbers that break it. Prints as `a texture of this width (20000, at most
/// 16384)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reason {
    /// The rejected request, or the rule that the description must follow.
    pub rule: &'static str,
    /// The requested number and the limit.
    pub numbers: Numbers,
}

/// The numbers of a [`Reason`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Numbers {
    /// The rule has no number. Example: a feature is missing.
    None,
    /// The requested number. The rule says which numbers are allowed.
    Given(u64),
    /// The requested number is above the limit.
    AtMost {
        /// The requested number.
        given: u64,
        /// The limit.
        max: u64,
    },
    /// The requested number is below the limit.
    AtLeast {
        /// The requested number.
        given: u64,
        /// The limit.
        min: u64,
    },
    /// The requested number differs from the only allowed number.
    Exactly {
        /// The requested number.
        given: u64,
        /// The only allowed number.
        wanted: u64,
    },
    /// The requested number is not a multiple of `unit`.
    MultipleOf {
        /// The requested number.
        given: u64,
        /// The requested number must be a multiple of this number.
        unit: u64,
    },
    /// The requested flags are not allowed, or not in this combination. Prints in hexadecimal.
    Flags {
        /// The requested flags.
        given: u64,
        /// The allowed flags.
        allowed: u64,
    },
    /// The requested number is above the limit, and both are floating-point numbers.
    AtMostReal {
        /// The requested number, as the bits of an `f32` ([`f32::to_bits`]).
        given: u32,
        /// The limit, as the bits of an `f32`.
        max: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule)?;
        match self.numbers {
            Numbers::None => Ok(()),
            Numbers::Given(given) => write!(f, " ({given})"),
            Numbers::AtMost { given, max } => write!(f, " ({given}, at most {max})"),
            Numbers::AtLeast { given, min } => write!(f, " ({given}, at least {min})"),
            Numbers::Exactly { given, wanted } => write!(f, " ({given}, only {wanted})"),
            Numbers::MultipleOf { given, unit } => write!(f, " ({given}, a multiple of {unit})"),
            Numbers::Flags { given, allowed } => write!(f, " ({given:#x}, of {allowed:#x})"),
            Numbers::AtMostReal { given, max } => {
                write!(f, " ({}, at most {})", f32::from_bits(given), f32::from_bits(max))
            }
        }
    }
}

impl DeviceError {
    /// Returns [`DeviceError::Unsupported`] without numbers.
    #[must_use]
    pub const fn unsupported(rule: &'static str) -> Self {
        Self::Unsupported(Reason { rule, numbers: Numbers::None })
    }

    /// Returns [`DeviceError::InvalidInfo`] without numbers.
    #[must_use]
    pub const fn invalid(rule: &'static str) -> Self {
        Self::InvalidInfo(Reason { rule, numbers: Numbers::None })
    }

    /// Returns the error with these numbers if it has a [`Reason`]. Returns other errors unchanged.
    #[must_use]
    pub const fn with(self, numbers: Numbers) -> Self {
        match self {
            Self::Unsupported(Reason { rule, .. }) => Self::Unsupported(Reason { rule, numbers }),
            Self::InvalidInfo(Reason { rule, .. }) => Self::InvalidInfo(Reason { rule, numbers }),
            other => other,
        }
    }

    /// Returns `Ok` if `given` is at most `max`; otherwise, this error with both numbers.
    ///
    /// # Errors
    /// `given` is above `max`.
    pub const fn at_most(self, given: u64, max: u64) -> Result<(), Self> {
        if given <= max { Ok(()) } else { Err(self.with(Numbers::AtMost { given, max })) }
    }

    /// Returns `Ok` if `given` is at least `min`; otherwise, this error with both numbers.
    ///
    /// # Errors
    /// `given` is below `min`.
    pub const fn at_least(self, given: u64, min: u64) -> Result<(), Self> {
        if given >= min { Ok(()) } else { Err(self.with(Numbers::AtLeast { given, min })) }
    }

    /// Returns `Ok` if `given` is `wanted`; otherwise, this error with both numbers.
    ///
    /// # Errors
    /// `given` differs from `wanted`.
    pub const fn exactly(self, given: u64, wanted: u64) -> Result<(), Self> {
        if given == wanted { Ok(()) } else { Err(self.with(Numbers::Exactly { given, wanted })) }
    }

    /// Returns `Ok` if `given` is a multiple of `unit`; otherwise, this error with both numbers. `unit` must not be 0.
    ///
    /// # Errors
    /// `given` is not a multiple of `unit`.
    pub const fn multiple_of(self, given: u64, unit: u64) -> Result<(), Self> {
        if given.is_multiple_of(unit) { Ok(()) } else { Err(self.with(Numbers::MultipleOf { given, unit })) }
    }

    /// Returns `Ok` if `given` has no flag that `allowed` lacks; otherwise, this error with both sets of flags.
    ///
    /// # Errors
    /// `given` has flags that `allowed` lacks.
    pub const fn flags(self, given: u64, allowed: u64) -> Result<(), Self> {
        if given & !allowed == 0 { Ok(()) } else { Err(self.with(Numbers::Flags { given, allowed })) }
    }

    /// Returns `true` if the call can succeed after memory has been freed.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfHostMemory | Self::OutOfDeviceMemory | Self::TooManyObjects | Self::MapFailed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_what_was_given_and_what_is_allowed() {
        let error = DeviceError::unsupported("a texture of this width");
        assert_eq!(error.to_string(), "the device does not support this: a texture of this width");
        assert_eq!((error.at_most(16384, 16384), error.at_least(1, 1)), (Ok(()), Ok(())));
        assert_eq!((error.exactly(1, 1), error.multiple_of(12, 6), error.flags(5, 7)), (Ok(()), Ok(()), Ok(())));
        let real = Numbers::AtMostReal { given: 16.5_f32.to_bits(), max: 15.75_f32.to_bits() };
        for (refused, numbers) in [
            (error.at_most(20_000, 16_384), "(20000, at most 16384)"),
            (error.at_least(0, 1), "(0, at least 1)"),
            (error.exactly(4, 1), "(4, only 1)"),
            (error.multiple_of(7, 6), "(7, a multiple of 6)"),
            (error.flags(0x41, 0x40), "(0x41, of 0x40)"),
            (Err(error.with(Numbers::Given(3))), "(3)"),
            (Err(error.with(real)), "(16.5, at most 15.75)"),
        ] {
            let said = refused.expect_err(numbers).to_string();
            assert_eq!(said, format!("{error} {numbers}"));
        }
        assert_eq!(DeviceError::Lost.with(Numbers::Given(3)), DeviceError::Lost);
        assert!(size_of::<DeviceError>() <= 48, "it is returned by value");
    }

    #[test]
    fn each_check_accepts_its_limit_and_refuses_the_next_number() {
        let rule = DeviceError::invalid("a rule");
        let refused = |numbers| Err(DeviceError::InvalidInfo(Reason { rule: "a rule", numbers }));
        assert_eq!(rule.at_most(7, 7), Ok(()));
        assert_eq!(rule.at_most(6, 7), Ok(()));
        assert_eq!(rule.at_most(8, 7), refused(Numbers::AtMost { given: 8, max: 7 }));
        assert_eq!(rule.at_least(7, 7), Ok(()));
        assert_eq!(rule.at_least(8, 7), Ok(()));
        assert_eq!(rule.at_least(6, 7), refused(Numbers::AtLeast { given: 6, min: 7 }));
        assert_eq!(rule.exactly(7, 7), Ok(()));
        assert_eq!(rule.exactly(6, 7), refused(Numbers::Exactly { given: 6, wanted: 7 }));
        assert_eq!(rule.exactly(8, 7), refused(Numbers::Exactly { given: 8, wanted: 7 }));
        assert_eq!((rule.multiple_of(0, 7), rule.multiple_of(14, 7)), (Ok(()), Ok(())));
        assert_eq!(rule.multiple_of(15, 7), refused(Numbers::MultipleOf { given: 15, unit: 7 }));
        assert_eq!((rule.flags(0, 6), rule.flags(2, 6), rule.flags(6, 6)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(rule.flags(3, 6), refused(Numbers::Flags { given: 3, allowed: 6 }));
    }

    #[test]
    fn numbers_are_added_to_reasons_and_to_no_other_error() {
        let numbers = Numbers::Given(5);
        let reason = Reason { rule: "a rule", numbers };
        assert_eq!(DeviceError::unsupported("a rule").with(numbers), DeviceError::Unsupported(reason));
        assert_eq!(DeviceError::invalid("a rule").with(numbers), DeviceError::InvalidInfo(reason));
        assert_eq!(DeviceError::Other(3).with(numbers), DeviceError::Other(3));
        for (error, text) in [
            (DeviceError::OutOfHostMemory, "the host is out of memory"),
            (DeviceError::OutOfDeviceMemory, "the device is out of memory"),
            (DeviceError::MapFailed, "the memory could not be mapped"),
            (DeviceError::Lost, "the device is lost"),
            (DeviceError::invalid("a rule"), "the description is not valid: a rule"),
            (DeviceError::Other(-3), "the driver failed with code -3"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn freed_memory_helps_against_four_errors() {
        for error in [
            DeviceError::OutOfHostMemory,
            DeviceError::OutOfDeviceMemory,
            DeviceError::TooManyObjects,
            DeviceError::MapFailed,
        ] {
            assert!(error.is_out_of_memory(), "{error}");
        }
        for error in [
            DeviceError::Lost,
            DeviceError::unsupported("a rule"),
            DeviceError::invalid("a rule"),
            DeviceError::Other(0),
        ] {
            assert!(!error.is_out_of_memory(), "{error}");
        }
    }
}
