//! By what the articles of a split are known again.

use xxhash_rust::xxh3::Xxh3;

use super::reader::RaceSet;

impl RaceSet {
    /// The xxh3-128 hash of the split's name and of all that was read of its articles, in
    /// hexadecimal: the same for the same questions in the same order, wherever their files lie.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Box::new(Xxh3::new()); // half a kilobyte
        let mut text = |text: &str| {
            // With its length, so that no text can be taken for the end of another.
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        text(self.split.name());
        for article in &self.articles {
            text(article.level.name());
            text(&article.id);
            text(&article.text);
            text(&article.questions.len().to_string());
            for question in &article.questions {
                text(&question.text);
                question.options.iter().for_each(|option| text(option));
                text(&question.answer.to_string());
            }
        }
        format!("{:032x}", hash.digest128())
    }
}
