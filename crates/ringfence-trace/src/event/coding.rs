//! Encoding of the fields of events: one module per kind of field, each with `put` and `take`.

use super::PlannedRange;
use crate::format::{Parts, push_number, push_text};
use crate::snapshot::RingSnapshot;

/// Defines a module for each kind of field that is encoded as one number. The arguments are the conversion to the
/// number, and the conversion back, which returns `None` if the number is invalid.
macro_rules! numbers {
    ($($name:ident of $type:ty: $put:expr, $take:expr;)*) => {
        $(pub(super) mod $name {
            use super::*;

            pub(in crate::event) fn put(part: &$type, into: &mut Vec<u8>) {
                push_number(into, $put(*part));
            }

            pub(in crate::event) fn take(from: &mut Parts<'_>) -> Option<$type> {
                from.number().and_then($take)
            }
        })*
    };
}

numbers! {
    number of u64: u64::from, Some;
    index of u32: u64::from, |number| u32::try_from(number).ok();
    flag of bool: u64::from, |number| (number <= 1).then_some(number == 1);
    exponent of u64: |power: u64| power.trailing_zeros().into(), |number| 1_u64.checked_shl(number.try_into().ok()?);
}

pub(super) mod text {
    use super::*;

    pub(in crate::event) fn put(text: &impl AsRef<str>, into: &mut Vec<u8>) {
        push_text(into, text.as_ref());
    }

    pub(in crate::event) fn take(from: &mut Parts<'_>) -> Option<String> {
        from.text().map(str::to_owned)
    }
}

/// Encodes a list of texts: the count, then each text.
pub(super) mod texts {
    use super::*;

    pub(in crate::event) fn put(texts: &[impl AsRef<str>], into: &mut Vec<u8>) {
        push_number(into, texts.len() as u64);
        texts.iter().for_each(|held| text::put(held, into));
    }

    pub(in crate::event) fn take(from: &mut Parts<'_>) -> Option<Vec<String>> {
        (0..from.number()?).map(|_| text::take(from)).collect()
    }
}

/// Encodes the state of a ring, without its name.
pub(super) mod ring {
    use super::*;

    pub(in crate::event) fn put(figures: &RingSnapshot, into: &mut Vec<u8>) {
        let mut figures = RingSnapshot { name: String::new(), ..*figures };
        numbers(&mut figures).into_iter().for_each(|number| push_number(into, *number));
    }

    pub(in crate::event) fn take(from: &mut Parts<'_>) -> Option<RingSnapshot> {
        let mut figures = RingSnapshot::default();
        for number in numbers(&mut figures) {
            *number = from.number()?;
        }
        Some(figures)
    }

    fn numbers(figures: &mut RingSnapshot) -> [&mut u64; 9] {
        [
            &mut figures.capacity_bytes,
            &mut figures.used_bytes,
            &mut figures.high_water_bytes,
            &mut figures.submission_count,
            &mut figures.wait_count,
            &mut figures.wait_ns,
            &mut figures.written_bytes,
            &mut figures.grow_count,
            &mut figures.shrink_count,
        ]
    }
}

/// Encodes a list of planned resources: the count, then the numbers of each resource, then their names.
pub(super) mod planned {
    use super::*;

    pub(in crate::event) fn put(resources: &[PlannedRange<impl AsRef<str>>], into: &mut Vec<u8>) {
        push_number(into, resources.len() as u64);
        for PlannedRange { first_pass, end_pass, offset, bytes, .. } in resources {
            [first_pass, end_pass, offset, bytes].into_iter().for_each(|number| push_number(into, *number));
        }
        resources.iter().for_each(|held| text::put(&held.name, into));
    }

    pub(in crate::event) fn take(from: &mut Parts<'_>) -> Option<Vec<PlannedRange>> {
        // The list grows with each element that is read, so that a damaged count cannot reserve much memory.
        let mut resources = Vec::new();
        for _ in 0..from.number()? {
            let (first_pass, end_pass) = (from.number()?, from.number()?);
            let (offset, bytes) = (from.number()?, from.number()?);
            resources.push(PlannedRange { first_pass, end_pass, offset, bytes, name: String::new() });
        }
        for resource in &mut resources {
            resource.name = text::take(from)?;
        }
        Some(resources)
    }
}

#[cfg(test)]
mod tests;
