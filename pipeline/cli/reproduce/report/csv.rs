//! Lines of CSV by RFC 4180, ended by a line feed.

/// A field's text.
pub(super) fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// A line of fields, with its end.
pub(super) fn line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<_> = cells.map(|cell| quoted(&cell)).collect();
    format!("{}\n", cells.join(","))
}

/// A field, in quotes where it needs them.
fn quoted(field: &str) -> String {
    let is_bare = !field.contains([',', '"', '\n', '\r']) && field.trim() == field;
    if is_bare { field.to_owned() } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}
