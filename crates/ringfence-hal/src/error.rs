//! Errors of a driver, and the rule that a description breaks, with its numbers.

use std::fmt;

use super::api_result::ApiResult;

/// What went wrong in the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The host has no memory left.
    #[error("the host is out of memory")]
    OutOfHostMemory,
    /// The device has no memory left.
    #[error("the device is out of memory")]
    OutOfDeviceMemory,
    /// As many memory objects are alive as the driver allows.
    #[error("the driver's limit of memory objects is reached")]
    TooManyObjects,
    /// Memory could not be mapped.
    #[error("the memory could not be mapped")]
    MapFailed,
    /// The device is lost: nothing that was submitted will complete.
    #[error("the device is lost")]
    Lost,
    /// The device has no such thing.
    #[error("the device does not support this: {0}")]
    Unsupported(Reason),
    /// The description is not valid.
    #[error("the description is not valid: {0}")]
    InvalidInfo(Reason),
    /// Any other failure of Vulkan or Direct3D 12, with the call that failed.
    #[error("{0}")]
    Api(ApiResult),
    /// Anything else, as a number of the driver's own.
    #[error("the driver failed with code {0}")]
    Other(i64),
}

/// The rule that a description breaks, and the numbers that break it. Prints as
/// `a texture as wide as this (20000, at most 16384)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reason {
    /// What is refused, or what should be.
    pub rule: &'static str,
    /// What was requested, and what the limit is.
    pub numbers: Numbers,
}

/// The numbers of a [`Reason`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Numbers {
    /// The rule is about no number: a feature that is missing, an object that is not alive.
    None,
    /// What was requested; the rule says what is allowed.
    Given(u64),
    /// More than a limit was requested.
    AtMost {
        /// What was requested.
        given: u64,
        /// The limit.
        max: u64,
    },
    /// Less than a limit was requested.
    AtLeast {
        /// What was requested.
        given: u64,
        /// The limit.
        min: u64,
    },
    /// Another value than the only one that is allowed was requested.
    Exactly {
        /// What was requested.
        given: u64,
        /// What is allowed.
        wanted: u64,
    },
    /// What was requested is no multiple.
    MultipleOf {
        /// What was requested.
        given: u64,
        /// What it has to be a multiple of.
        unit: u64,
    },
    /// Flags were requested that are not allowed, or not beside each other. Prints in hexadecimal.
    Flags {
        /// What was requested.
        given: u64,
        /// What is allowed.
        allowed: u64,
    },
    /// More than a limit that is no whole number was requested.
    AtMostReal {
        /// What was requested, by its bits ([`f32::to_bits`]).
        given: u32,
        /// The limit, by its bits.
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
    /// [`DeviceError::Unsupported`] without numbers.
    #[must_use]
    pub const fn unsupported(rule: &'static str) -> Self {
        Self::Unsupported(Reason { rule, numbers: Numbers::None })
    }

    /// [`DeviceError::InvalidInfo`] without numbers.
    #[must_use]
    pub const fn invalid(rule: &'static str) -> Self {
        Self::InvalidInfo(Reason { rule, numbers: Numbers::None })
    }

    /// The same with the numbers, if it names a rule.
    #[must_use]
    pub const fn with(self, numbers: Numbers) -> Self {
        match self {
            Self::Unsupported(Reason { rule, .. }) => Self::Unsupported(Reason { rule, numbers }),
            Self::InvalidInfo(Reason { rule, .. }) => Self::InvalidInfo(Reason { rule, numbers }),
            other => other,
        }
    }

    /// Refuses more than `max`: this error with both numbers.
    ///
    /// # Errors
    /// If `given` is more.
    pub const fn at_most(self, given: u64, max: u64) -> Result<(), Self> {
        if given <= max { Ok(()) } else { Err(self.with(Numbers::AtMost { given, max })) }
    }

    /// Refuses less than `min`: this error with both numbers.
    ///
    /// # Errors
    /// If `given` is less.
    pub const fn at_least(self, given: u64, min: u64) -> Result<(), Self> {
        if given >= min { Ok(()) } else { Err(self.with(Numbers::AtLeast { given, min })) }
    }

    /// Refuses any value but one: this error with both numbers.
    ///
    /// # Errors
    /// If `given` is another.
    pub const fn exactly(self, given: u64, wanted: u64) -> Result<(), Self> {
        if given == wanted { Ok(()) } else { Err(self.with(Numbers::Exactly { given, wanted })) }
    }

    /// Refuses a value that is not a multiple of `unit`, which is not 0: this error with both numbers.
    ///
    /// # Errors
    /// If `given` is no multiple.
    pub const fn multiple_of(self, given: u64, unit: u64) -> Result<(), Self> {
        if given.is_multiple_of(unit) { Ok(()) } else { Err(self.with(Numbers::MultipleOf { given, unit })) }
    }

    /// Refuses flags beyond those that are allowed: this error with both.
    ///
    /// # Errors
    /// If `given` has others.
    pub const fn flags(self, given: u64, allowed: u64) -> Result<(), Self> {
        if given & !allowed == 0 { Ok(()) } else { Err(self.with(Numbers::Flags { given, allowed })) }
    }

    /// Whether freeing memory may help.
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
        let error = DeviceError::unsupported("a texture as wide as this");
        assert_eq!(error.to_string(), "the device does not support this: a texture as wide as this");
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
}
