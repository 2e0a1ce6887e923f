//! Cuts passages whose last word is to be guessed out of a document's prose, by one fixed rule.
//!
//! LAMBADA's passages were chosen by people, so that the last word follows from the passage and not
//! from its last sentence. Without people a rule must do: the last word has occurred in the passage
//! before, so that whoever has read it all has a chance.
//!
//! Sentences are gathered from the first after a heading on. The passage ends as soon as it has 20
//! words or more and its last sentence ends in a period after a word of at least four letters, and
//! nothing but letters, that stands earlier in the passage, in whatever case; the next passage
//! begins with the next sentence. A passage that grows beyond 80 words loses its first sentences. A
//! line that does not end as a sentence does, or that holds a bare address, is no prose and ends
//! the gathering as a heading does.
//!
//! A passage is written as LAMBADA's are: sentences with a space between them, paragraphs with an
//! empty line, and no mark after the last word.

use std::collections::VecDeque;

use super::prose::{Line, Prose};

/// The fewest words of a passage, ...
const MIN_WORDS: usize = 20;
/// ... and the most.
const MAX_WORDS: usize = 80;
/// The fewest letters of its last word: shorter ones are mostly articles and pronouns.
const MIN_LETTERS: usize = 4;

/// The passages of a document, in its order and without overlap.
pub(super) fn passages(prose: &Prose) -> Vec<String> {
    let mut passages = Vec::new();
    let mut passage = Passage::default();
    for line in &prose.lines {
        let Line::Text(text) = line else {
            passage = Passage::default();
            continue;
        };
        if !is_prose(text) {
            passage = Passage::default();
            continue;
        }
        for (index, sentence) in sentences(text).into_iter().enumerate() {
            passage.push(sentence, index == 0);
            passages.extend(passage.take_if_complete());
        }
    }
    passages
}

fn is_prose(line: &str) -> bool {
    line.trim_end().ends_with(['.', '!', '?']) && !line.contains("://")
}

/// Cuts a line into its sentences: after a word that ends in `.`, `!` or `?`, before a capital
/// letter.
fn sentences(line: &str) -> Vec<Vec<&str>> {
    let mut sentences = vec![Vec::new()];
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        sentences.last_mut().expect("there is always one").push(word);
        let begins_sentence = |next: &&str| next.starts_with(char::is_uppercase);
        if word.ends_with(['.', '!', '?']) && words.peek().is_some_and(begins_sentence) {
            sentences.push(Vec::new());
        }
    }
    sentences
}

/// Consecutive sentences.
#[derive(Default)]
struct Passage<'a> {
    sentences: VecDeque<Sentence<'a>>,
}

struct Sentence<'a> {
    words: Vec<&'a str>,
    begins_paragraph: bool,
}

impl<'a> Passage<'a> {
    /// Appends a sentence; the first ones go where the passage becomes too long.
    fn push(&mut self, words: Vec<&'a str>, begins_paragraph: bool) {
        self.sentences.push_back(Sentence { words, begins_paragraph });
        while self.num_words() > MAX_WORDS {
            self.sentences.pop_front();
        }
    }

    fn num_words(&self) -> usize {
        self.sentences.iter().map(|sentence| sentence.words.len()).sum()
    }

    /// The text, if the passage is long enough and ends in a word that occurs in it before; the
    /// passage is empty then.
    fn take_if_complete(&mut self) -> Option<String> {
        let mut words: Vec<&str> =
            self.sentences.iter().flat_map(|sentence| sentence.words.iter().copied()).collect();
        let last = words.pop()?.strip_suffix('.')?;
        let is_word = last.chars().count() >= MIN_LETTERS && last.chars().all(char::is_alphabetic);
        let last = last.to_lowercase();
        let occurs =
            |word: &&str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase() == last;
        if words.len() + 1 < MIN_WORDS || !is_word || !words.iter().any(occurs) {
            return None;
        }
        Some(std::mem::take(self).into_text())
    }

    /// The passage without the period at its end.
    fn into_text(self) -> String {
        let mut text = String::new();
        for sentence in &self.sentences {
            if !text.is_empty() {
                text.push_str(if sentence.begins_paragraph { "\n\n" } else { " " });
            }
            text.push_str(&sentence.words.join(" "));
        }
        text.truncate(text.len() - 1);
        text
    }
}
