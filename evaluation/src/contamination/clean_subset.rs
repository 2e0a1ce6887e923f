//! A model's score on the items of a test set that the corpus does not hold, beside its score on
//! all of them.

use serde::Serialize;

use super::test_items::ItemShare;
use crate::accuracy::Accuracy;
use crate::items::{ArticleScore, ExampleScore, Items};
use crate::perplexity::{is_capped, perplexity, unlimited_perplexity};
use crate::report::TaskResult;

/// The scores of one model on a test set and on parts of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CleanSubsets {
    /// The task that scored.
    pub task: String,
    /// Why there are no scores by item, where there are none.
    pub problem: Option<String>,
    /// The whole test set, then ever cleaner parts of it.
    pub subsets: Vec<CleanSubset>,
}

/// A part of a test set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CleanSubset {
    /// Which items are in it.
    pub items_with: String,
    /// Share of an item's n-grams below which it is in: 0 for those without any, `None` for all.
    pub matched_share_below: Option<f64>,
    /// Number of items.
    pub items: u64,
    /// Tokens that were predicted in them.
    pub targets: u64,
    /// The score; `None` where no item is in it.
    pub score: Option<SubsetScore>,
}

/// How well a model did on some items, in the metrics of its task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SubsetScore {
    /// Of articles.
    Text(TextScore),
    /// Of passages whose last word was guessed.
    Cloze(ClozeScore),
}

/// The perplexities of some articles, as WikiText103 defines them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TextScore {
    /// `exp` of the losses over the original words.
    pub word_perplexity: f64,
    /// `exp` of the losses over the tokens.
    pub token_perplexity: f64,
    /// Whether a mean loss above 20 was cut, as in the task: its perplexity says no more than that
    /// it is larger.
    pub capped: bool,
    /// The sum of the losses.
    pub total_nll: f64,
}

/// The accuracies on some passages, as LAMBADA defines them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClozeScore {
    /// Share of the passages with every token of the last word right.
    pub strict_accuracy: f64,
    /// Its standard error.
    pub strict_stderr: f64,
    /// Share of the passages with the last token right.
    pub last_token_accuracy: f64,
    /// Its standard error.
    pub last_token_stderr: f64,
    /// `exp` of the mean over the passages of the last word's loss.
    pub target_perplexity: f64,
}

/// How one item was scored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ItemScore {
    /// Line of the heading or record.
    pub(super) line: u64,
    pub(super) targets: u64,
    pub(super) nll: f64,
    pub(super) kind: ItemKind,
}

/// What an item's score counts beside losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ItemKind {
    /// An article of so many original words, in proportion to the targets that were scored.
    Article { words: f64 },
    /// A passage, and whether it was guessed.
    Passage { strict: bool, last_token: bool },
}

/// What an item must be to belong to a subset.
type Rule = fn(&ItemShare) -> bool;

/// The subsets: what is told of them, the limit and the rule.
const SUBSETS: [(&str, Option<f64>, Rule); 4] = [
    ("all", None, |_| true),
    ("under 80% matched", Some(0.8), |it| it.ngrams == 0 || 5 * it.matched < 4 * it.ngrams),
    ("under 20% matched", Some(0.2), |it| it.ngrams == 0 || 5 * it.matched < it.ngrams),
    ("no n-gram matched", Some(0.0), |it| it.matched == 0),
];

impl CleanSubsets {
    /// The scores of the subsets of a test set that was `scored`, given how much of each item was
    /// seen.
    pub(super) fn of(scored: &TaskResult, shares: &[ItemShare]) -> Self {
        let scores: Vec<ItemScore> = match &scored.items {
            Some(Items::Articles(articles)) => {
                articles.iter().filter_map(ItemScore::of_article).collect()
            }
            Some(Items::Examples(examples)) => examples.iter().map(ItemScore::of_example).collect(),
            _ => Vec::new(),
        };
        if scores.is_empty() {
            // Tokens that the tokenizer makes of changed text belong to no place of the file.
            let problem = "the task has no scores of single items, as where the tokenizer changes \
                           the text";
            return Self::without_items(&scored.task, problem);
        }
        Self::new(&scored.task, &scores, shares)
    }

    /// The scores of the subsets, given how each item was scored and how much of it was seen.
    pub(super) fn new(task: &str, scores: &[ItemScore], shares: &[ItemShare]) -> Self {
        let subset = |(name, below, rule): (&str, Option<f64>, Rule)| {
            let of_subset = |score: &&ItemScore| {
                // Both lists are in file order, but a limit may have left items unscored.
                let at = shares.binary_search_by_key(&score.line, |share| share.line);
                at.is_ok_and(|at| rule(&shares[at]))
            };
            let scores: Vec<ItemScore> = scores.iter().filter(of_subset).copied().collect();
            CleanSubset {
                items_with: name.to_owned(),
                matched_share_below: below,
                items: scores.len() as u64,
                targets: scores.iter().map(|score| score.targets).sum(),
                score: SubsetScore::of(&scores),
            }
        };
        let subsets = SUBSETS.into_iter().map(subset).collect();
        Self { task: task.to_owned(), problem: None, subsets }
    }

    /// No scores, and why.
    pub(super) fn without_items(task: &str, problem: &str) -> Self {
        Self { task: task.to_owned(), problem: Some(problem.to_owned()), subsets: Vec::new() }
    }
}

impl ItemScore {
    /// Of an article of which something was scored.
    fn of_article(article: &ArticleScore) -> Option<Self> {
        let share = article.scored as f64 / article.targets as f64;
        (article.scored > 0).then_some(Self {
            line: article.line as u64,
            targets: article.scored as u64,
            nll: article.nll,
            kind: ItemKind::Article { words: article.words as f64 * share },
        })
    }

    fn of_example(example: &ExampleScore) -> Self {
        let ExampleScore { line, strict, last_token, nll, ref target_tokens, .. } = *example;
        let kind = ItemKind::Passage { strict, last_token };
        Self { line, targets: target_tokens.len() as u64, nll, kind }
    }
}

impl SubsetScore {
    fn of(scores: &[ItemScore]) -> Option<Self> {
        let nll: f64 = scores.iter().map(|score| score.nll).sum();
        let targets: u64 = scores.iter().map(|score| score.targets).sum();
        match scores.first()?.kind {
            ItemKind::Article { .. } => {
                let words = scores.iter().map(|score| match score.kind {
                    ItemKind::Article { words } => words,
                    ItemKind::Passage { .. } => 0.0,
                });
                let words: f64 = words.sum();
                (words > 0.0 && targets > 0).then(|| {
                    Self::Text(TextScore {
                        word_perplexity: perplexity(nll / words),
                        token_perplexity: perplexity(nll / targets as f64),
                        capped: is_capped(nll / words.min(targets as f64)),
                        total_nll: nll,
                    })
                })
            }
            ItemKind::Passage { .. } => {
                let accuracy = |is_right: fn(ItemKind) -> bool| {
                    Accuracy::of(scores.iter().map(|score| is_right(score.kind)))
                };
                let strict = accuracy(|it| matches!(it, ItemKind::Passage { strict: true, .. }));
                let last_token =
                    accuracy(|it| matches!(it, ItemKind::Passage { last_token: true, .. }));
                Some(Self::Cloze(ClozeScore {
                    strict_accuracy: strict.value(),
                    strict_stderr: strict.standard_error(),
                    last_token_accuracy: last_token.value(),
                    last_token_stderr: last_token.standard_error(),
                    target_perplexity: unlimited_perplexity(nll / scores.len() as f64),
                }))
            }
        }
    }
}
