//! Turns a Markdown document into an article in WikiText form, by fixed rules.
//!
//! WikiText is text cut into words and punctuation by single spaces: headings as ` = Title = `, hyphens inside words
//! as ` @-@ `, separators inside numbers as ` @,@ ` and ` @.@ `, every line with a space at both ends. A test text in this form takes the very path that
//! the real benchmark takes, from the article-wise decontamination to the detokenizer and the count of words.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// A document in WikiText form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Article {
    /// The whole article, heading first.
    pub(super) text: String,
    /// Words and punctuation marks in `text`, as the benchmark counts them: pieces between spaces, line ends among them.
    pub(super) num_words: usize,
}

/// The shortest line of prose that is kept, in characters: shorter ones are captions, badges and menu entries.
const MIN_LINE_CHARS: usize = 40;

/// Rewrites `markdown` as one article of at most about `max_words` words.
///
/// Kept: headings and the prose of paragraphs, list items and quotes, each on one line. Dropped: code blocks, tables, images, raw
/// HTML, bare addresses, lines of fewer than 40 characters, and headings that no line follows. The first heading is the title, `title` where there
/// is none; every later heading is at level 2 or below, so that a document is one article.
pub(super) fn article(markdown: &str, title: &str, max_words: usize) -> Article {
    let lines = Lines::read(markdown);
    let title = lines.title.as_deref().unwrap_or(title);
    let mut article = Article { text: String::new(), num_words: 0 };
    article.push(&format!(" = {} = ", heading_words(title)));
    let mut pending: Option<(usize, &str)> = None;
    for line in &lines.lines {
        if article.num_words >= max_words {
            break;
        }
        match line {
            Line::Heading(level, text) => pending = Some((*level, text)),
            Line::Prose(text) => {
                if let Some((level, heading)) = pending.take() {
                    let marks = "= ".repeat(level);
                    article.push(&format!(" {marks}{} {marks}", heading_words(heading)));
                }
                article.push(&format!(" {} ", words(text)));
            }
        }
    }
    article
}

impl Article {
    /// Appends a line and the empty line that WikiText puts before headings and after.
    fn push(&mut self, line: &str) {
        if line.starts_with(" = ") {
            self.text.push_str(" \n");
            self.num_words += 1;
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.num_words += line.split_whitespace().count() + 1;
        if line.starts_with(" = ") {
            self.text.push_str(" \n");
            self.num_words += 1;
        }
    }
}

enum Line {
    /// A heading below the title: its level from 2, and its text.
    Heading(usize, String),
    Prose(String),
}

/// The headings and lines of prose of a Markdown document.
struct Lines {
    title: Option<String>,
    lines: Vec<Line>,
}

impl Lines {
    fn read(markdown: &str) -> Self {
        let mut lines = Self { title: None, lines: Vec::new() };
        let mut text = String::new();
        let mut skipped_depth = 0_usize;
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES) {
            match event {
                Event::Start(tag) if is_skipped(&tag) => skipped_depth += 1,
                Event::End(tag) if is_skipped_end(tag) => skipped_depth -= 1,
                _ if skipped_depth > 0 => {}
                Event::Start(Tag::Heading { .. } | Tag::Paragraph | Tag::Item) => {
                    lines.end_prose(&mut text);
                }
                Event::End(TagEnd::Heading(level)) => lines.end_heading(level, &mut text),
                Event::End(TagEnd::Paragraph | TagEnd::Item) => lines.end_prose(&mut text),
                Event::Text(part) | Event::Code(part) => text.push_str(&part),
                Event::SoftBreak | Event::HardBreak => text.push(' '),
                _ => {}
            }
        }
        lines.end_prose(&mut text);
        lines
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
            self.lines.push(Line::Prose(line));
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

/// The words of a heading, without the marks that make it one.
fn heading_words(text: &str) -> String {
    words(&text.replace('=', " "))
}

/// Cuts `text` into words and punctuation marks, WikiText's way, with single spaces between.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for word in text.split_whitespace().filter(|word| !word.contains("://")) {
        if !out.is_empty() {
            out.push(' ');
        }
        push_word(word, &mut out);
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn push_word(word: &str, out: &mut String) {
    let mut previous = ' ';
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let is_inner = previous.is_alphanumeric() && next.is_alphanumeric();
        let is_in_number = previous.is_ascii_digit() && next.is_ascii_digit();
        match c {
            '-' if is_inner => out.push_str(" @-@ "),
            ',' | '.' if is_in_number => out.extend([" @", c.encode_utf8(&mut [0; 4]), "@ "]),
            '.' | ':' | '!' | '?' if next != ' ' && previous != ' ' => out.push(c),
            ',' | '.' | ';' | ':' | '!' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '"' => {
                out.extend([' ', c, ' ']);
            }
            '\'' if next == 's' && previous.is_alphanumeric() => out.push_str(" '"),
            _ => out.push(c),
        }
        previous = c;
    }
}
