//! Turns a document's prose into an article in WikiText form, by fixed rules.
//!
//! WikiText is text cut into words and punctuation by single spaces: headings as ` = Title = `,
//! hyphens inside words as ` @-@ `, separators inside numbers as ` @,@ ` and ` @.@ `, every line
//! with a space at both ends. A test text in this form takes the very path that the real benchmark
//! takes, from the article-wise decontamination to the detokenizer and the count of words.

use super::prose::{Line, Prose};

/// A document in WikiText form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Article {
    /// The whole article, heading first.
    pub(super) text: String,
    /// Words and punctuation marks in `text`, as the benchmark counts them: pieces between spaces,
    /// line ends among them.
    pub(super) num_words: usize,
}

/// Rewrites a document as one article of at most about `max_words` words.
///
/// Every line of prose stays one, without bare addresses; headings that no line follows go. The
/// document's title is that of the article, `title` where it has none.
pub(super) fn article(prose: &Prose, title: &str, max_words: usize) -> Article {
    let title = prose.title.as_deref().unwrap_or(title);
    let mut article = Article { text: String::new(), num_words: 0 };
    article.push(&format!(" = {} = ", heading_words(title)));
    let mut pending: Option<(usize, &str)> = None;
    for line in &prose.lines {
        if article.num_words >= max_words {
            break;
        }
        match line {
            Line::Heading(level, text) => pending = Some((*level, text)),
            Line::Text(text) => {
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
