//! Tokens back to text as they come.

use corpus::tokenizer::Tokenizer;

/// Turns a growing list of tokens into text, a whole character at a time.
///
/// A character may take several tokens, and some tokenizers write a token differently at the
/// beginning of a text: so what is decoded is always a stretch of tokens, of which the text that
/// was handed out already is left off.
pub struct TextStream<'t> {
    tokenizer: &'t dyn Tokenizer,
    /// Tokens from a place on where a character begins.
    tokens: Vec<u32>,
    /// How many of them are known to end with a whole character.
    whole: usize,
    /// Bytes of their text that were handed out.
    handed_out: usize,
}

impl<'t> TextStream<'t> {
    /// A stream of what follows `context`, the text of which is not handed out.
    #[must_use]
    pub fn after(tokenizer: &'t dyn Tokenizer, context: &[u32]) -> Self {
        let tokens = context.to_vec();
        let handed_out = tokenizer.decode(&tokens).len();
        Self { tokenizer, whole: tokens.len(), tokens, handed_out }
    }

    /// The text that is certain after one more token; empty in the middle of a character.
    pub fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        let text = self.tokenizer.decode(&self.tokens);
        let is_open = text.ends_with(char::REPLACEMENT_CHARACTER);
        // Bytes that begin a character decode to one such sign, which later bytes may replace.
        let certain = text.len() - if is_open { char::REPLACEMENT_CHARACTER.len_utf8() } else { 0 };
        let new = text.get(self.handed_out..certain).unwrap_or_default().to_owned();
        self.handed_out = self.handed_out.max(certain);
        if !is_open {
            // The tokens before the last whole character are the context of what comes.
            self.tokens.drain(..self.whole);
            self.handed_out = self.tokenizer.decode(&self.tokens).len();
            self.whole = self.tokens.len();
        }
        new
    }

    /// The text of `tokens`, which are all that come.
    #[must_use]
    pub fn all(mut self, tokens: &[u32]) -> String {
        let mut text: String = tokens.iter().map(|&token| self.push(token)).collect();
        text.push_str(&self.finish());
        text
    }

    /// What is left: an open character, as U+FFFD.
    #[must_use]
    pub fn finish(self) -> String {
        let text = self.tokenizer.decode(&self.tokens);
        text.get(self.handed_out..).unwrap_or_default().to_owned()
    }
}
