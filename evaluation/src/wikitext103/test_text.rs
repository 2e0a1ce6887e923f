//! A test file as the original implementation sees it: one stream, whose articles are told apart
//! only afterwards.

use std::path::Path;

use training::parallel::TokenScore;

use super::articles::{self, Article};
use super::form::Form;
use crate::config::EvalPlan;
use crate::detokenizer::{count_original_tokens, detokenize_marked};
use crate::error::EvalError;
use crate::identity::ModelIdentity;
use crate::items::{ArticleScore, Items};
use crate::perplexity::perplexity;
use crate::test_file;
use crate::windows::OverlapWindows;

/// Bytes and original tokens of the published test split, `wiki.test.tokens` with its `<unk>`. The
/// paper prints the second.
const PUBLISHED_TEST_SPLIT: (usize, usize) = (1_281_077, 245_566);

/// A test file and what the protocol makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestText {
    /// Bytes of the file.
    pub bytes: usize,
    /// Space-separated pieces of the file.
    pub original_tokens: usize,
    /// The detokenized text, encoded.
    pub tokens: Vec<u32>,
    /// What tells its form.
    pub form: Form,
    /// The file's articles.
    articles: Vec<Article>,
    /// Original tokens of each article, but for the first of the file.
    words: Vec<usize>,
    /// Index of each article's first token; `None` where the tokens do not give back the text.
    first_tokens: Option<Vec<usize>>,
}

impl TestText {
    /// Reads a test file, counts its words, detokenizes and encodes it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not UTF-8 with lines that end in a line feed, is empty, or
    /// has fewer than two words or tokens; or when the tokenizer gives a token that the model does
    /// not have.
    pub fn read(path: &Path, model: &ModelIdentity) -> Result<Self, EvalError> {
        let original = test_file::read_with_line_feeds(path)?;
        let original_tokens = count_original_tokens(&original);
        let articles = articles::cut(&original);
        let mut starts: Vec<usize> = articles.iter().map(|article| article.bytes.start).collect();
        let text = detokenize_marked(&original, &mut starts);
        let tokens = model.encode(&text)?;
        if original_tokens < 2 || tokens.len() < 2 {
            return Err(EvalError::TooShort {
                path: path.to_owned(),
                original_tokens,
                tokens: tokens.len(),
            });
        }
        Ok(Self {
            bytes: original.len(),
            original_tokens,
            form: Form::of(&original),
            words: articles::words(&original, &articles),
            first_tokens: articles::first_tokens(&text, &starts, &tokens, &*model.tokenizer),
            articles,
            tokens,
        })
    }

    /// The windows in which `model` sees the text.
    ///
    /// # Errors
    ///
    /// When the plan's overlap exceeds what the model sees.
    pub fn windows(
        &self,
        model: &ModelIdentity,
        plan: &EvalPlan,
    ) -> Result<OverlapWindows<'_>, EvalError> {
        plan.check_overlap(&model.architecture)?;
        Ok(OverlapWindows::new(&self.tokens, model.seq_length(), plan.overlap))
    }

    /// What each article had of the losses of `scores`, those of the windows in order; `None` where
    /// the tokens do not tell whose they are.
    pub(super) fn items(&self, scores: &[Vec<TokenScore>]) -> Option<Items> {
        // The scored targets of the windows follow each other: token 1, token 2, and so on.
        let losses: Vec<f64> = scores.iter().flatten().map(|it| f64::from(it.loss)).collect();
        let firsts = self.first_tokens.as_ref()?;
        let ends = firsts.iter().skip(1).copied().chain([self.tokens.len()]);
        let scored = |(index, (&first, end)): (usize, (&usize, usize))| {
            // Token 0 is no target, and target 1 has the first loss.
            let targets = first.max(1) - 1..end.max(1) - 1;
            let own = &losses[targets.start.min(losses.len())..targets.end.min(losses.len())];
            let article = &self.articles[index];
            let nll = own.iter().sum::<f64>();
            let words = self.words[index] as f64 * own.len() as f64 / targets.len() as f64;
            ArticleScore {
                index,
                title: article.title.clone(),
                line: article.line,
                bytes: article.bytes.clone(),
                words: self.words[index],
                targets: targets.len(),
                scored: own.len(),
                nll,
                word_perplexity: (words > 0.0).then(|| perplexity(nll / words)),
            }
        };
        let items = firsts.iter().zip(ends).enumerate().map(scored);
        Some(Items::Articles(items.filter(|item| item.scored > 0 || item.targets == 0).collect()))
    }

    /// Whether this has the size and the words of WikiText-103's published test split.
    #[must_use]
    pub fn is_published_test_split(&self) -> bool {
        (self.bytes, self.original_tokens) == PUBLISHED_TEST_SPLIT
    }

    /// Targets per original word that has one before it.
    #[must_use]
    pub fn token_ratio(&self) -> f64 {
        (self.tokens.len() - 1) as f64 / (self.original_tokens - 1) as f64
    }
}
