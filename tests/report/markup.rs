//! A strict reader of the page: it takes no markup that an XML parser would not take, void elements
//! of HTML aside.

use std::collections::BTreeMap;

/// A piece of markup.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// The beginning of an element.
    Open { name: String, attributes: BTreeMap<String, String> },
    /// Its end.
    Close { name: String },
    /// Text between.
    Text(String),
}

/// Elements of HTML that have no end.
const VOID: &[&str] = &["meta", "br", "hr"];

/// The pieces of `page`.
///
/// # Panics
///
/// If the page is not well-formed: an element is not ended, or ended out of turn, an attribute is
/// not quoted or stands twice, an ampersand begins no entity, an id occurs twice, or something
/// refers to an id that nothing has.
pub(crate) fn read(page: &str) -> Vec<Piece> {
    let body =
        page.trim_start().strip_prefix("<!doctype html>").expect("the page says that it is HTML");
    let pieces = pieces(body);
    check_ids(&pieces);
    pieces
}

/// The pieces of `markup`, which may be a single element.
pub(crate) fn pieces(markup: &str) -> Vec<Piece> {
    let (mut pieces, mut open, mut rest) = (Vec::new(), Vec::<String>::new(), markup);
    while let Some(start) = rest.find('<') {
        push_text(&mut pieces, &rest[..start]);
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "an element ends out of turn");
            pieces.push(Piece::Close { name: name.to_owned() });
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag_of(tag);
        pieces.push(Piece::Open { name: name.clone(), attributes });
        if is_empty || VOID.contains(&name.as_str()) {
            pieces.push(Piece::Close { name });
        } else if name == "style" {
            let end = rest.find("</style>").expect("the style ends");
            assert!(!rest[..end].contains('<'), "markup in the style");
            pieces.push(Piece::Text(rest[..end].to_owned()));
            rest = &rest[end..];
            open.push(name);
        } else {
            open.push(name);
        }
    }
    push_text(&mut pieces, rest);
    assert!(open.is_empty(), "{open:?} are not ended");
    pieces
}

/// All text of the page, pieces joined by spaces and entities undone.
pub(crate) fn text_of(pieces: &[Piece]) -> String {
    let mut is_style = false;
    let mut words = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Open { name, .. } => is_style = name == "style",
            Piece::Close { .. } => is_style = false,
            Piece::Text(text) if !is_style => words.extend(text.split_whitespace()),
            Piece::Text(_) => {}
        }
    }
    words.join(" ")
}

/// The elements that begin in the page: names and attributes.
pub(crate) fn elements(
    pieces: &[Piece],
) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Open { name, attributes } => Some((name.as_str(), attributes)),
        _ => None,
    })
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    assert!(!text.contains('>'), "a bare > in {text:?}");
    if !text.trim().is_empty() {
        pieces.push(Piece::Text(unescaped(text)));
    }
}

fn tag_of(tag: &str) -> (String, BTreeMap<String, String>) {
    let name: String = tag.chars().take_while(char::is_ascii_alphanumeric).collect();
    assert!(!name.is_empty(), "a tag without a name: <{tag}>");
    let mut attributes = BTreeMap::new();
    let mut rest = tag[name.len()..].trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').unwrap_or_else(|| panic!("no value in <{tag}>"));
        let after = after.strip_prefix('"').unwrap_or_else(|| panic!("no quote in <{tag}>"));
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("no end in <{tag}>"));
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == ':';
        assert!(key.chars().all(is_name) && !key.is_empty(), "{key:?} in <{tag}>");
        let earlier = attributes.insert(key.to_owned(), unescaped(value));
        assert_eq!(earlier, None, "{key} stands twice in <{tag}>");
        assert!(after.is_empty() || after.starts_with(' ') || after.starts_with('\n'), "<{tag}>");
        rest = after.trim_start();
    }
    (name, attributes)
}

fn unescaped(text: &str) -> String {
    let mut unescaped = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        unescaped.push_str(&rest[..start]);
        let end = rest[start..].find(';').unwrap_or_else(|| panic!("a bare & in {text:?}")) + start;
        let letter = match &rest[start + 1..end] {
            "amp" | "#38" => '&',
            "lt" | "#60" => '<',
            "gt" | "#62" => '>',
            "quot" | "#34" => '"',
            "#39" => '\'',
            other => panic!("the entity {other:?} in {text:?}"),
        };
        unescaped.push(letter);
        rest = &rest[end + 1..];
    }
    unescaped.push_str(rest);
    unescaped
}

fn check_ids(pieces: &[Piece]) {
    let mut ids = std::collections::BTreeSet::new();
    for (name, attributes) in elements(pieces) {
        if let Some(id) = attributes.get("id") {
            assert!(!id.contains(char::is_whitespace), "the id {id:?}");
            assert!(ids.insert(id.clone()), "the id {id:?} of <{name}> occurs twice");
        }
    }
    for (name, attributes) in elements(pieces) {
        let referred = attributes.get("aria-labelledby").map(String::as_str).unwrap_or_default();
        for id in referred.split_whitespace() {
            assert!(ids.contains(id), "<{name}> refers to {id:?}, which nothing is");
        }
    }
}

/// Asserts that every coordinate of every `<svg>` is a number within its view box; returns how many
/// charts there are.
pub(crate) fn check_coordinates(pieces: &[Piece]) -> usize {
    let (mut charts, mut view) = (0, (0.0, 0.0));
    for (name, attributes) in elements(pieces) {
        let number = |key: &str| -> Option<f64> {
            let text = attributes.get(key)?;
            Some(text.parse().unwrap_or_else(|_| panic!("{key}={text:?} in <{name}>")))
        };
        if name == "svg" {
            let sizes: Vec<f64> = attributes["viewBox"]
                .split(' ')
                .map(|size| size.parse().expect("a view box of numbers"))
                .collect();
            assert_eq!((sizes.len(), sizes[0], sizes[1]), (4, 0.0, 0.0));
            view = (sizes[2], sizes[3]);
            charts += 1;
        }
        let inside = |value: f64, most: f64| {
            assert!((0.0..=most).contains(&value), "{value} of {most} in <{name} {attributes:?}>");
        };
        for key in ["x", "x1", "x2", "cx"] {
            number(key).into_iter().for_each(|x| inside(x, view.0));
        }
        for key in ["y", "y1", "y2", "cy"] {
            number(key).into_iter().for_each(|y| inside(y, view.1));
        }
        if name == "rect" {
            let size = |key| number(key).expect("a rectangle has a size");
            assert!(size("width") > 0.0 && size("height") > 0.0);
            inside(size("x") + size("width"), view.0);
            inside(size("y") + size("height"), view.1);
        }
        for point in attributes.get("points").map_or("", String::as_str).split_whitespace() {
            let (x, y) = point.split_once(',').expect("a point has two coordinates");
            inside(x.parse().expect("a number"), view.0);
            inside(y.parse().expect("a number"), view.1);
        }
    }
    charts
}

#[test]
fn the_reader_takes_no_markup_that_is_wrong() {
    for wrong in [
        "<p>",
        "<p></q>",
        "<p><q></p></q>",
        "<p a=b></p>",
        "<p a=\"1\" a=\"2\"></p>",
        "<p>a & b</p>",
        "<p>&unknown;</p>",
        "<p>a > b</p>",
    ] {
        let read = std::panic::catch_unwind(|| pieces(wrong));
        assert!(read.is_err(), "{wrong} was taken");
    }
    let right = pieces("<p a=\"&lt;\">x &amp; y<br></p>");
    assert_eq!(text_of(&right), "x & y");
}
