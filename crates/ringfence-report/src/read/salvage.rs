//! Repair of truncated JSON: the text is cut off after a complete element, and its open brackets are closed.
//!
//! ```text
//!   {"version":1,"blocks":[{"bytes":4,"ranges":[{"offset":0,"bytes":2},{"offs        truncated
//!   {"version":1,"blocks":[{"bytes":4,"ranges":[{"offset":0,"bytes":2}]}]}           cut and closed
//! ```

/// Limit of the nesting depth. All supported files have a smaller depth.
const DEPTH_MAX: usize = 16;

/// Returns repaired texts to try in this order, the most deeply nested cut first. Each has the number of bytes of
/// `text` that it contains. O(bytes).
///
/// For each nesting depth, the scan records the last position up to which a list, or the outermost object, has only
/// complete elements. The most deeply nested cut is not always usable, because the objects around it may lack required
/// fields.
pub(super) fn candidates(text: &[u8]) -> impl Iterator<Item = (Vec<u8>, usize)> {
    let (mut open, mut last) = (Vec::new(), [0; DEPTH_MAX]);
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        if is_text {
            is_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_text = true,
            b'{' | b'[' if open.len() + 1 == DEPTH_MAX => break,
            b'{' | b'[' => {
                open.push(*byte);
                last[open.len()..].fill(0);
            }
            b'}' | b']' => {
                open.pop();
                last[open.len() + 1..].fill(0);
                last[open.len()] = at + 1;
            }
            b',' if open.len() == 1 || open.last() == Some(&b'[') => last[open.len()] = at,
            _ => {}
        }
    }
    let closed = move |depth: usize| {
        let end = last[depth];
        let closing = open[..depth].iter().rev().map(|byte| if *byte == b'{' { b'}' } else { b']' });
        (text[..end].iter().copied().chain(closing).collect(), end)
    };
    let depths: Vec<usize> = (1..DEPTH_MAX).rev().filter(|depth| last[*depth] > 0).collect();
    depths.into_iter().map(closed)
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[test]
    fn what_is_whole_is_kept_and_closed() {
        let text = br#"{"a":1,"b":[{"c":[1,2,{"d":"]\"}"}],"e":2},{"c":[3,4"#;
        let all: Vec<_> = candidates(text).map(|(text, _)| String::from_utf8(text).expect("text")).collect();
        assert_eq!(
            all,
            [
                r#"{"a":1,"b":[{"c":[1,2,{"d":"]\"}"}],"e":2},{"c":[3]}]}"#,
                r#"{"a":1,"b":[{"c":[1,2,{"d":"]\"}"}],"e":2}]}"#,
                r#"{"a":1}"#,
            ]
        );
        assert_eq!(candidates(b"").count(), 0);
        assert_eq!(candidates(b"]]}} [[[[").count(), 0);
    }
}
