//! Keeping test data out of the corpus: the rule `article`.
//!
//! A test set is cut into articles at its level-1 headings, as WikiText writes them (` = Title = `). A document is
//! contaminated by an article when it holds more than half of the article's distinct n-grams, or when more than half of
//! its own are in the article: the first finds the article inside a longer page, the second an excerpt of it. N-grams are
//! runs of eight words by [`NormalizedText`], to which case, punctuation and spacing make no difference.
//!
//! A document or an article of fewer than eight words has no n-gram and so matches nothing; a test set in which no article
//! has one is an error, for it would flag nothing.
//!
//! Paper: section 4.1 removes the Wikipedia articles that are in the WikiText103 test set, and does not say how they were
//! recognized. By content, an article is found in whatever source and under whatever title it stands.

mod screen;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corpus::{NGram, NormalizedText};
use screen::Screen;

use crate::CurationError;
use crate::key_hash::HashKeyedMap;

/// The articles of all test sets, and an index from n-grams to the articles that hold them.
pub struct ContaminationIndex {
    ngram_words: usize,
    screen: Screen,
    articles: Vec<Article>,
    holders: HashKeyedMap<u128, Vec<u32>>,
}

/// An article of a test set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Article {
    /// File of the test set.
    pub file: Arc<Path>,
    /// Line of the heading, counted from 1; 1 for text before the first heading.
    pub line: u64,
    /// The heading, without its marks; `None` for text before the first heading.
    pub title: Option<String>,
    /// Number of distinct n-grams, heading included.
    pub num_ngrams: usize,
}

/// Why a document is contaminated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contamination {
    /// Index of the first article, in the order of the test sets, to which the rule applies.
    pub article: usize,
    /// Distinct n-grams that document and article share.
    pub shared: usize,
    /// Distinct n-grams of the document.
    pub document_ngrams: usize,
    /// Bytes of the document's text that shared n-grams cover, in order and without overlap.
    pub spans: Vec<Range<usize>>,
}

impl ContaminationIndex {
    /// Reads test sets and indexes their n-grams of `ngram_words` words, at least one.
    ///
    /// # Errors
    ///
    /// [`CurationError::Io`] for a file that cannot be read as UTF-8, [`CurationError::TestSet`] for one without n-grams.
    pub fn open(test_sets: &[PathBuf], ngram_words: usize) -> Result<Self, CurationError> {
        let mut index = Self {
            ngram_words,
            screen: Screen::new(ngram_words),
            articles: Vec::new(),
            holders: HashKeyedMap::default(),
        };
        for path in test_sets {
            let text = std::fs::read_to_string(path).map_err(CurationError::io("read", path))?;
            index.add_test_set(path, &text)?;
        }
        Ok(index)
    }

    /// All articles, in the order of the test sets.
    #[must_use]
    pub fn articles(&self) -> &[Article] {
        &self.articles
    }

    /// Whether, and by which article, a text is contaminated.
    #[must_use]
    pub fn contamination(&self, text: &str) -> Option<Contamination> {
        if !self.screen.may_share(text) {
            return None;
        }
        let normalized = NormalizedText::new(text);
        let ngrams: Vec<NGram> = normalized.ngrams(self.ngram_words).collect();
        let matched: HashSet<u128> = ngrams
            .iter()
            .map(|ngram| ngram.hash)
            .filter(|hash| self.holders.contains_key(hash))
            .collect();
        if matched.is_empty() {
            return None;
        }

        let document_ngrams = ngrams.iter().map(|ngram| ngram.hash).collect::<HashSet<_>>().len();
        let mut shared_with: BTreeMap<u32, usize> = BTreeMap::new();
        for article in matched.iter().flat_map(|hash| &self.holders[hash]) {
            *shared_with.entry(*article).or_default() += 1;
        }
        let (article, shared) = shared_with.into_iter().find(|&(article, shared)| {
            let article_ngrams = self.articles[article as usize].num_ngrams;
            2 * shared > article_ngrams || 2 * shared > document_ngrams
        })?;
        let spans = covered(
            ngrams
                .into_iter()
                .filter(|ngram| {
                    self.holders.get(&ngram.hash).is_some_and(|held_by| held_by.contains(&article))
                })
                .map(|ngram| ngram.span),
        );
        Some(Contamination { article: article as usize, shared, document_ngrams, spans })
    }

    fn add_test_set(&mut self, path: &Path, text: &str) -> Result<(), CurationError> {
        if text.trim().is_empty() {
            return Err(CurationError::TestSet { path: path.to_owned(), problem: "it is empty" });
        }
        let file: Arc<Path> = path.into();
        let mut has_ngrams = false;
        for (line, title, content) in articles_of(text) {
            let number = u32::try_from(self.articles.len()).expect("fewer than 2^32 articles");
            let ngrams: HashSet<u128> = NormalizedText::new(content)
                .ngrams(self.ngram_words)
                .map(|ngram| ngram.hash)
                .collect();
            has_ngrams |= !ngrams.is_empty();
            self.screen.add(content);
            self.articles.push(Article {
                file: file.clone(),
                line,
                title: title.map(str::to_owned),
                num_ngrams: ngrams.len(),
            });
            for hash in ngrams {
                self.holders.entry(hash).or_default().push(number);
            }
        }
        if !has_ngrams {
            let problem = "no article has as many words as an n-gram, so nothing would be found";
            return Err(CurationError::TestSet { path: path.to_owned(), problem });
        }
        Ok(())
    }
}

/// Cuts a test set at its level-1 headings: line, title and content (heading included) of each article.
fn articles_of(text: &str) -> Vec<(u64, Option<&str>, &str)> {
    let mut starts = vec![(0, 1, None)];
    let mut offset = 0;
    for (line, number) in text.split_inclusive('\n').zip(1_u64..) {
        if let Some(title) = level_1_title(line) {
            starts.push((offset, number, Some(title)));
        }
        offset += line.len();
    }
    let ends = starts.iter().skip(1).map(|&(start, ..)| start).chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&(start, line, title), end)| (line, title, &text[start..end]))
        .filter(|(_, title, content)| title.is_some() || !content.trim().is_empty())
        .collect()
}

/// The title in a line ` = Title = `; deeper headings are written ` = = Title = = `.
fn level_1_title(line: &str) -> Option<&str> {
    let title = line.trim().strip_prefix("= ")?.strip_suffix(" =")?.trim();
    let is_deeper = title.starts_with("= ") || title.ends_with(" =");
    (!title.is_empty() && title != "=" && !is_deeper).then_some(title)
}

/// Joins spans, ordered by their start, that overlap or touch.
fn covered(spans: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `count` different words.
    fn words(prefix: &str, count: usize) -> String {
        (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>().join(" ")
    }

    fn index(test_set: &str) -> ContaminationIndex {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.tokens");
        std::fs::write(&path, test_set).unwrap();
        ContaminationIndex::open(&[path], 8).unwrap()
    }

    /// Two articles: `Alpha` of 1 + 46 words (40 n-grams), `Beta` of 1 + 100.
    fn two_articles() -> ContaminationIndex {
        index(&format!(
            " \n = Alpha = \n \n {} \n = = History = = \n \n = Beta = \n {} \n",
            words("a", 45),
            words("b", 100)
        ))
    }

    #[test]
    fn articles_begin_at_level_1_headings() {
        let index = two_articles();
        let seen: Vec<_> = index
            .articles()
            .iter()
            .map(|article| (article.line, article.title.as_deref(), article.num_ngrams))
            .collect();
        assert_eq!(seen, [(2, Some("Alpha"), 40), (7, Some("Beta"), 94)]);
    }

    #[test]
    fn only_level_1_headings_are_titles() {
        assert_eq!(level_1_title(" = Robert Boulter = \n"), Some("Robert Boulter"));
        assert_eq!(level_1_title("= E = mc2 =\n"), Some("E = mc2"));
        for line in
            [" = = Career = = \n", " = = = Film = = = ", " = ", "= =", "= = =", "= a", "a =", ""]
        {
            assert_eq!(level_1_title(line), None, "{line}");
        }
    }

    #[test]
    fn text_before_the_first_heading_is_an_article_without_title() {
        let index = index(&words("w", 20));
        assert_eq!((index.articles()[0].line, &index.articles()[0].title), (1, &None));
        assert!(index.contamination(&words("w", 20)).is_some());
    }

    #[test]
    fn a_verbatim_article_inside_a_longer_document_is_found() {
        let index = two_articles();
        let text =
            format!("{} Alpha {} History {}", words("x", 500), words("a", 45), words("y", 500));
        let found = index.contamination(&text).unwrap();
        assert_eq!((found.article, found.shared), (0, 40));
        assert_eq!(found.document_ngrams, 1047 - 7);
        let [span] = &found.spans[..] else { panic!("{:?}", found.spans) };
        assert!(
            text[span.clone()].starts_with("Alpha a0") && text[span.clone()].ends_with("History")
        );
    }

    #[test]
    fn case_spacing_and_wikitext_marks_make_no_difference() {
        let index = index(&format!(" = T = \n about 3 @-@ 4 , or {} \n", words("a", 20)));
        let text = format!("ABOUT 3-4; OR\n\n{}", words("A", 20).replace(' ', " \t "));
        assert!(index.contamination(&text).is_some());
    }

    #[test]
    fn an_excerpt_is_found_by_its_own_share() {
        // 15 words of Beta are 8 of its 94 n-grams; the document has 15 - 7 + 7 = 15 or 16 of its own.
        let index = two_articles();
        let excerpt = |foreign| format!("{} {}", words("b", 15), words("x", foreign));
        let found = index.contamination(&excerpt(7)).unwrap();
        assert_eq!((found.article, found.shared, found.document_ngrams), (1, 8, 15));
        assert_eq!(index.contamination(&excerpt(8)), None, "8 of 16 are not more than half");
    }

    #[test]
    fn half_an_article_stays_and_one_n_gram_more_goes() {
        let index = two_articles();
        let part = |count| format!("{} Alpha {}", words("x", 500), words("a", count));
        assert_eq!(index.contamination(&part(26)), None, "20 of 40");
        assert_eq!(index.contamination(&part(27)).unwrap().shared, 21);
    }

    #[test]
    fn repeated_passages_count_once() {
        let index = two_articles();
        let text = format!("{} {}", words("x", 500), format!("{} | ", words("a", 20)).repeat(10));
        assert_eq!(index.contamination(&text), None);
    }

    proptest! {
        #[test]
        fn verdicts_are_those_of_sets_of_strings(
            articles in prop::collection::vec(prop::collection::vec("[a-d]", 2..12), 1..4),
            document in prop::collection::vec("[a-d]", 0..20),
        ) {
            let grams = |words: &[String]| -> HashSet<String> {
                words.windows(2).map(|pair| pair.join(" ")).collect()
            };
            let own = grams(&document);
            let expected = articles.iter().position(|article| {
                // The heading is the first word of the article.
                let of_article = grams(&[&["title".to_owned()], &article[..]].concat());
                let shared = own.intersection(&of_article).count();
                2 * shared > of_article.len() || 2 * shared > own.len()
            });

            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("test.tokens");
            let text: String =
                articles.iter().map(|words| format!(" = Title = \n {} \n", words.join(" "))).collect();
            std::fs::write(&path, text).unwrap();
            let index = ContaminationIndex::open(&[path], 2).unwrap();
            let found = index.contamination(&document.join(", "));
            prop_assert_eq!(found.map(|found| found.article), expected);
        }
    }

    #[test]
    fn clean_and_short_documents_stay() {
        let index = two_articles();
        for text in ["", "a1 a2 a3", &words("clean", 1000), &words("a", 7)] {
            assert_eq!(index.contamination(text), None);
        }
    }

    #[test]
    fn a_test_set_that_finds_nothing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            ContaminationIndex::open(&[path], 8).err().unwrap().to_string()
        };
        assert!(open("empty", b" \n\n").ends_with("empty: it is empty"));
        assert!(open("short", b" = A = \n b c d \n").contains("nothing would be found"));
        assert!(open("binary", b"\xff\xfe\x00").contains("cannot read"));
        let missing = ContaminationIndex::open(&[folder.path().join("missing")], 8);
        assert!(missing.err().unwrap().to_string().contains("cannot read"));
    }
}
