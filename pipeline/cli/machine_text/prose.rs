//! The prose of a Markdown document, by fixed rules.
//!
//! Kept: headings, and the text of paragraphs, list items and quotes, each on one line. Dropped:
//! code blocks, tables, images, raw HTML, and lines of fewer than 40 characters. Only the first
//! heading is a title; every later one is at level 2 or below, so that a document is one article.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The shortest line of prose that is kept, in characters: shorter ones are captions, badges and
/// menu entries.
const MIN_LINE_CHARS: usize = 40;

/// The headings and lines of prose of a Markdown document.
pub(super) struct Prose {
    /// The first heading, if nothing stands before it.
    pub(super) title: Option<String>,
    /// What follows, in order.
    pub(super) lines: Vec<Line>,
}

/// A line of a document.
pub(super) enum Line {
    /// A heading below the title: its level from 2, and its text.
    Heading(usize, String),
    /// A paragraph, a list item or a quote.
    Text(String),
}

impl Prose {
    /// Reads a document.
    pub(super) fn read(markdown: &str) -> Self {
        let mut prose = Self { title: None, lines: Vec::new() };
        let mut text = String::new();
        let mut skipped_depth = 0_usize;
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
            match event {
                Event::Start(tag) if is_skipped(&tag) => skipped_depth += 1,
                Event::End(tag) if is_skipped_end(tag) => skipped_depth -= 1,
                _ if skipped_depth > 0 => {}
                Event::Start(Tag::Heading { .. } | Tag::Paragraph | Tag::Item) => {
                    prose.end_prose(&mut text);
                }
                Event::End(TagEnd::Heading(level)) => prose.end_heading(level, &mut text),
                Event::End(TagEnd::Paragraph | TagEnd::Item) => prose.end_prose(&mut text),
                Event::Text(part) | Event::Code(part) => text.push_str(&part),
                Event::SoftBreak | Event::HardBreak => text.push(' '),
                _ => {}
            }
        }
        prose.end_prose(&mut text);
        prose
    }

    fn end_heading(&mut self, level: HeadingLevel, text: &mut String) {
        let heading = std::mem::take(text);
        if !heading.chars().any(char::is_alphanumeric) {
            return;
        }
        if self.title.is_none() && self.lines.is_empty() {
            self.title = Some(heading);
        } else {
            self.lines.push(Line::Heading((level as usize).max(2), heading));
        }
    }

    fn end_prose(&mut self, text: &mut String) {
        let line = std::mem::take(text);
        if line.trim().chars().count() >= MIN_LINE_CHARS {
            self.lines.push(Line::Text(line));
        }
    }
}

fn is_skipped(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::Table(_)
            | Tag::Image { .. }
            | Tag::FootnoteDefinition(_)
    )
}

fn is_skipped_end(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::Table
            | TagEnd::Image
            | TagEnd::FootnoteDefinition
    )
}
