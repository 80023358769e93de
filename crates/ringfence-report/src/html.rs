//! Escaping of untrusted text, and insertion of content into the template of a page.

/// Escapes `raw` for use as text or as the value of a quoted attribute. Replaces control characters, which HTML does
/// not allow, by `U+FFFD`.
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

/// Returns `value` as JSON for a script element. `<`, `>` and `&` are written as `\u` escapes, so that no text can end
/// the element or open a comment. In JSON these characters occur only inside strings, where such escapes are allowed.
pub(crate) fn script_json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain data converts to JSON");
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

/// Replaces each `{{slot}}` of `frame` by `content(slot)`. The inserted content is not searched for slots, so it may
/// contain braces.
pub(crate) fn fill(frame: &str, content: impl Fn(&str) -> String) -> String {
    let mut pieces = frame.split("{{");
    let mut page = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (slot, rest) = piece.split_once("}}").expect("the page's template closes each slot");
        page.push_str(&content(slot));
        page.push_str(rest);
    }
    page
}
