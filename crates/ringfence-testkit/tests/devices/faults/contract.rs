//! Checks the source text of the contract: the injector knows every fallible function and forwards every function.

use ringfence::device::fault::Call;

const DEVICE: &str = include_str!("../../../../ringfence-hal/src/device.rs");
const DESCRIPTORS: &str = include_str!("../../../../ringfence-hal/src/descriptors.rs");
const SHARING: &str = include_str!("../../../../ringfence-hal/src/sharing.rs");
const SPARSE: &str = include_str!("../../../../ringfence-hal/src/sparse.rs");
const INJECTOR: &str = include_str!("../../../../ringfence-hal/src/fault.rs");
const INJECTOR_OF_DESCRIPTORS: &str = include_str!("../../../../ringfence-hal/src/fault/descriptors.rs");
const INJECTOR_OF_SHARING: &str = include_str!("../../../../ringfence-hal/src/fault/sharing.rs");
const INJECTOR_OF_SPARSE: &str = include_str!("../../../../ringfence-hal/src/fault/sparse.rs");

/// Returns the functions of a trait: the name, and `true` if it returns a `Result` with a
/// [`DeviceError`](ringfence::device::DeviceError).
fn functions(source: &str, of: &str) -> Vec<(String, bool)> {
    let start = source.find(of).unwrap_or_else(|| panic!("the contract has {of}"));
    let body = &source[start..];
    let body = &body[..body.find("\n}").expect("the trait ends")];
    let mut found = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find("fn ") {
        let is_start = rest[..at].ends_with("    ") || rest[..at].ends_with("unsafe ");
        rest = &rest[at + 3..];
        if !is_start {
            continue;
        }
        let name: String = rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        let end = rest.find([';', '{']).expect("a signature ends");
        found.push((name, rest[..end].contains("DeviceError>")));
    }
    found
}

/// Returns `true` if a table of forwarded functions contains the function, as a signature without a body.
fn is_in_table(text: &str, name: &str) -> bool {
    let heads = [format!("fn {name}("), format!("fn {name}<")];
    let mut signatures = heads.iter().flat_map(|head| text.split(head.as_str()).skip(1));
    signatures.any(|rest| rest.find([';', '{']).is_some_and(|at| rest[at..].starts_with(';')))
}

#[test]
fn the_injector_knows_every_call_of_the_contract_that_can_fail() {
    let traits = [
        (DEVICE, "trait Driver"),
        (DEVICE, "trait Create<"),
        (DESCRIPTORS, "trait Descriptors"),
        (SHARING, "trait Share"),
        (SPARSE, "trait Sparse"),
    ];
    let injectors = [INJECTOR, INJECTOR_OF_DESCRIPTORS, INJECTOR_OF_SHARING, INJECTOR_OF_SPARSE];
    let functions: Vec<_> = traits.iter().flat_map(|(source, of)| functions(source, of)).collect();
    assert!(functions.len() > 30, "{functions:?}");
    let known: Vec<_> = Call::ALL.iter().map(|call| call.function()).collect();
    for (name, can_fail) in &functions {
        assert_eq!(known.contains(&name.as_str()), *can_fail, "{name}");
        // A function that takes no device is forwarded to the type of the inner device.
        let calls = [format!("inner.{name}("), format!("D::{name}(")];
        let is_called = |text: &str| calls.iter().any(|call| text.contains(call));
        let forwarded = injectors.iter().any(|text| is_called(text) || is_in_table(text, name));
        assert!(forwarded, "{name} is not passed on");
    }
    for call in known {
        assert!(functions.iter().any(|(name, _)| name == call), "{call} is no call of the contract");
    }
}
