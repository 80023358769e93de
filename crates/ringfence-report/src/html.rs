//! Text that comes from outside, made harmless; and the slots of the page's frame.

/// `raw` as text or as a quoted attribute's value. Control characters, which HTML cannot hold, become `U+FFFD`.
pub(crate) fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for letter in raw.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            _ if letter.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

/// `value` as JSON that a script element can hold. `<`, `>` and `&` stand only within JSON's strings, where `\u` says
/// the same; without them nothing can end the element or open a comment.
pub(crate) fn script_json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain data has a JSON form");
    let mut safe = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// `frame` with each `{{slot}}` filled. What is filled in is not looked at again, so it may hold braces.
pub(crate) fn fill(frame: &str, content: impl Fn(&str) -> String) -> String {
    let mut pieces = frame.split("{{");
    let mut page = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (slot, rest) = piece.split_once("}}").expect("the page's frame closes each slot");
        page.push_str(&content(slot));
        page.push_str(rest);
    }
    page
}
