//! The rule `title`: a document that is named as an article of a test set.
//!
//! WikiText writes titles in tokens (`Tom @-@ Tit 's`), corpora as they are read (`Tom-Tit's`).
//! Both are compared in one normal form: Unicode's NFKC in lower case, typographic quotes and
//! dashes made plain, characters of no width dropped, underscores taken as spaces, the marks of
//! `@-@`, `@,@` and `@.@` removed, and no space beside a character that is neither letter nor
//! digit. Punctuation itself stays: `C++` is not `C`. So does markup: a corpus that writes `&amp;`
//! for `&` has to be decoded before.
//!
//! A title that WikiText has lost a word of (`<unk>`) names no article and matches nothing.

use std::collections::HashMap;

use corpus::test_set::TestItem;
use unicode_normalization::UnicodeNormalization;

/// The word that WikiText writes for every word outside its vocabulary.
const UNKNOWN: &str = "<unk>";

/// Hyphen, figure dash, en dash, em dash and minus; NFKC makes the first of the unbreakable hyphen.
const DASHES: [char; 5] = ['\u{2010}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}'];

/// Soft hyphen, zero-width space, non-joiner, joiner, word joiner and byte order mark.
const NO_WIDTH: [char; 6] = ['\u{AD}', '\u{200B}', '\u{200C}', '\u{200D}', '\u{2060}', '\u{FEFF}'];

/// The titles of all articles.
#[derive(Debug, Default)]
pub(super) struct TitleIndex {
    /// The first article of each title, by normal form.
    items: HashMap<String, usize>,
    /// Articles with a title that can be compared.
    usable: usize,
}

impl TitleIndex {
    pub(super) fn new<'t>(items: impl Iterator<Item = &'t TestItem>) -> Self {
        let mut index = Self::default();
        for (number, item) in items.enumerate() {
            let title = item.title.as_deref().filter(|title| !title.contains(UNKNOWN));
            if let Some(title) = title.map(normal_form).filter(|title| !title.is_empty()) {
                index.items.entry(title).or_insert(number);
                index.usable += 1;
            }
        }
        index
    }

    /// Number of articles with a title that can be compared.
    pub(super) fn usable(&self) -> usize {
        self.usable
    }

    /// Index of the first article of this title.
    pub(super) fn find(&self, title: &str) -> Option<usize> {
        self.items.get(&normal_form(title)).copied()
    }
}

/// A title in the form in which titles are compared.
fn normal_form(title: &str) -> String {
    // Once more after the change of case, which can take a composed character apart.
    let composed: String = title.nfkc().collect();
    let mut plain: String = composed.to_lowercase().nfkc().collect();
    plain = plain.replace('_', " ").replace(['\u{2018}', '\u{2019}'], "'");
    plain = plain.replace(['\u{201C}', '\u{201D}'], "\"");
    plain = plain.replace(DASHES, "-").replace(NO_WIDTH, "");
    for mark in ['-', ',', '.'] {
        plain = plain.replace(&format!(" @{mark}@ "), &mark.to_string());
    }
    let mut normal = String::with_capacity(plain.len());
    for word in plain.split_whitespace() {
        let between_words =
            normal.ends_with(char::is_alphanumeric) && word.starts_with(char::is_alphanumeric);
        if between_words {
            normal.push(' ');
        }
        normal.push_str(word);
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn index(titles: &[&str]) -> TitleIndex {
        let items: Vec<TestItem> = titles
            .iter()
            .map(|title| TestItem {
                file: Path::new("wiki.test.tokens").into(),
                line: 1,
                title: Some((*title).to_owned()),
                id: None,
            })
            .collect();
        TitleIndex::new(items.iter())
    }

    #[test]
    fn titles_in_tokens_equal_titles_as_they_are_read() {
        for (tokenized, raw) in [
            ("Tom @-@ Tit 's", "Tom-Tit's"),
            ("Tom @-@ Tit 's", "tom-tit\u{2019}s"),
            ("Ise @-@ class battleship", "Ise-class battleship"),
            ("Typhoon Haiyan ( 2013 )", "Typhoon Haiyan (2013)"),
            ("Weevils Wobble But They Don 't Go Down", "Weevils Wobble But They Don't Go Down"),
            ("10 @,@ 000 Days : \" Part 1 @.@ 5 \"", "10,000 Days: \u{201C}Part 1.5\u{201D}"),
            ("Robert Boulter", " ROBERT  BOULTER\n"),
            ("Robert Boulter", "Robert_Boulter"),
            ("Café Müller", "CAFÉ MÜLLER"),
            ("東京", "東京"),
            ("Caf\u{e9}", "Cafe\u{301}"),
            ("\u{c9}tude", "E\u{301}TUDE"),
            ("2011 – 12 season", "2011-12 season"),
            ("2011 – 12 season", "2011\u{2011}12 season"),
            ("\u{2212} 5", "-5"),
            ("Mc² ﬁeld", "MC2 field"),
            ("Tel\u{200B}evision\u{FEFF}", "Tele\u{AD}vision"),
        ] {
            assert_eq!(index(&[tokenized]).find(raw), Some(0), "{tokenized} and {raw}");
            assert_eq!(index(&[raw]).find(tokenized), Some(0), "{raw} and {tokenized}");
        }
    }

    #[test]
    fn other_titles_are_other_titles() {
        for (one, other) in [
            ("C", "C++"),
            ("Ōkami", "Kami"),
            ("Now Here", "Nowhere"),
            ("Cafe", "Café"),
            ("Simon & Garfunkel", "Simon &amp; Garfunkel"),
            ("Robert Boulter", "Robert Boulter (actor)"),
            ("Kirby 's Block Ball", "Kirby"),
        ] {
            assert_eq!(index(&[one]).find(other), None, "{one} and {other}");
            assert_eq!(index(&[other]).find(one), None, "{other} and {one}");
        }
    }

    #[test]
    fn lost_words_and_nothing_match_nothing() {
        let index = index(&["<unk>", "Dick <unk>", "Two", "Two"]);
        assert_eq!(index.usable(), 2);
        for title in ["<unk>", "Dick <unk>", "Dick", "", " \t"] {
            assert_eq!(index.find(title), None, "{title}");
        }
        assert_eq!(index.find("two"), Some(2), "the first of equals");
    }
}
