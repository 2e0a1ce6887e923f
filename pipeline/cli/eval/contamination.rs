//! `pipeline eval --task contamination`: how much of a test set stands in a corpus, through
//! [`evaluation::contamination`].

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use corpus::reader::{OnBadFile, OnBadLine};
use evaluation::contamination::{ContaminationPlan, MAX_NGRAM_WORDS};

use crate::exit::Usage;

/// Flags of the task alone.
#[derive(Debug, Args)]
pub(crate) struct ContaminationArgs {
    /// For contamination: corpus to look for the test sets in, a data folder, or a file, folder or
    /// quoted glob of text, JSONL or Parquet as `pipeline dedup` reads them. May be given several
    /// times.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    corpus: Vec<PathBuf>,

    /// For contamination: words of the n-grams, such as 8, 5..13 or 8,13 [default: 8].
    ///
    /// All of them are measured in one pass; the result begins with those of 8 words, or with the
    /// first where 8 is not among them.
    #[arg(long = "n", value_name = "N", value_parser = ngram_words)]
    ngram_words: Option<NGramWords>,

    /// For contamination: key of JSONL, or column of Parquet, that holds the text, in test sets and
    /// corpora [default: text].
    #[arg(long, value_name = "KEY")]
    text_key: Option<String>,

    /// For contamination: what to do with a record of a corpus that cannot be read [default: fail].
    #[arg(long, value_name = "POLICY")]
    on_bad_line: Option<BadLinePolicy>,

    /// For contamination: what to do with a file of a corpus that breaks off or is damaged [default:
    /// fail].
    #[arg(long, value_name = "POLICY")]
    on_bad_file: Option<BadFilePolicy>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BadLinePolicy {
    /// Stop with the file, the line and the remedy.
    Fail,
    /// Pass over it and count it.
    Skip,
    /// Put U+FFFD in place of what is no character; pass over what cannot be mended so.
    Replace,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BadFilePolicy {
    /// Stop with the file and the place of the break.
    Fail,
    /// Search the documents before the break, count the file, and go on.
    KeepPrefix,
}

/// Numbers of words.
#[derive(Debug, Clone)]
struct NGramWords(Vec<NonZeroUsize>);

impl ContaminationArgs {
    /// The plan for these test sets.
    pub(crate) fn plan(&self, test_sets: Vec<PathBuf>) -> anyhow::Result<ContaminationPlan> {
        if self.corpus.is_empty() {
            bail!(Usage(anyhow!(
                "--task contamination: name the corpus to look for the test sets in with --corpus"
            )));
        }
        let mut plan = ContaminationPlan::new(test_sets, self.corpus.clone());
        if let Some(NGramWords(sizes)) = &self.ngram_words {
            plan.ngram_words.clone_from(sizes);
        }
        if let Some(key) = &self.text_key {
            plan.text_key.clone_from(key);
        }
        plan.read_policy.on_bad_line = match self.on_bad_line {
            None | Some(BadLinePolicy::Fail) => OnBadLine::Fail,
            Some(BadLinePolicy::Skip) => OnBadLine::Skip,
            Some(BadLinePolicy::Replace) => OnBadLine::Replace,
        };
        plan.read_policy.on_bad_file = match self.on_bad_file {
            None | Some(BadFilePolicy::Fail) => OnBadFile::Fail,
            Some(BadFilePolicy::KeepPrefix) => OnBadFile::KeepPrefix,
        };
        Ok(plan)
    }

    /// Refuses the flags for another task.
    pub(crate) fn check_unused(&self) -> anyhow::Result<()> {
        let flag = match self {
            Self { corpus, .. } if !corpus.is_empty() => "--corpus",
            Self { ngram_words: Some(_), .. } => "--n",
            Self { text_key: Some(_), .. } => "--text-key",
            Self { on_bad_line: Some(_), .. } => "--on-bad-line",
            Self { on_bad_file: Some(_), .. } => "--on-bad-file",
            _ => return Ok(()),
        };
        bail!(Usage(anyhow!("{flag}: only --task contamination looks for n-grams in a corpus")))
    }
}

/// Numbers of words: single ones and ranges with both ends, between commas.
fn ngram_words(text: &str) -> Result<NGramWords, String> {
    let form = || {
        format!("numbers of words from 1 to {MAX_NGRAM_WORDS} are needed, such as 8, 5..13 or 8,13")
    };
    let number = |text: &str| {
        let number = text.trim().parse::<usize>().ok().filter(|&number| number <= MAX_NGRAM_WORDS);
        number.and_then(NonZeroUsize::new).ok_or_else(form)
    };
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => sizes.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                if first > last {
                    return Err(format!("{part} is empty: the smaller number comes first"));
                }
                sizes.extend((first.get()..=last.get()).filter_map(NonZeroUsize::new));
            }
        }
    }
    Ok(NGramWords(sizes))
}
