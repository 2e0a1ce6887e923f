//! Articles and their questions.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of every question.
pub const OPTIONS: usize = 4;

/// Which part of RACE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RaceSplit {
    /// 87,866 questions to train on.
    Train,
    /// 4,887 questions to choose a model by.
    Dev,
    /// 4,934 questions, of which the paper's table 5 tells.
    Test,
}

/// The examinations that an article is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RaceLevel {
    /// Middle school.
    Middle,
    /// High school.
    High,
}

/// An article with its questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceArticle {
    /// The file it is in.
    pub file: PathBuf,
    /// Its line there, from 1.
    pub line: u64,
    /// Its name, such as `high132.txt`; no two articles of a split have the same.
    pub id: String,
    /// The examinations it is from.
    pub level: RaceLevel,
    /// The article.
    pub text: String,
    /// Its questions, at least one.
    pub questions: Vec<RaceQuestion>,
}

/// A question on an article.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceQuestion {
    /// A question, or a sentence with a blank `_`.
    pub text: String,
    /// What may be answered.
    pub options: [String; OPTIONS],
    /// Which of the options is right, from 0.
    pub answer: usize,
}

impl RaceSplit {
    /// Every split.
    pub const ALL: [Self; 3] = [Self::Train, Self::Dev, Self::Test];

    /// Name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Dev => "dev",
            Self::Test => "test",
        }
    }
}

impl RaceLevel {
    /// Every level, in the order in which their articles are read.
    pub const ALL: [Self; 2] = [Self::Middle, Self::High];

    /// Name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Middle => "middle",
            Self::High => "high",
        }
    }
}

impl fmt::Display for RaceSplit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for RaceLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for RaceSplit {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let split = Self::ALL.into_iter().find(|split| split.name() == name);
        split.ok_or_else(|| "train, dev or test is needed".to_owned())
    }
}

impl RaceArticle {
    /// The name by which a question is known in every run: that of its article, and its number from
    /// 0.
    #[must_use]
    pub fn question_id(&self, question: usize) -> String {
        format!("{}#{question}", self.id)
    }
}

impl RaceQuestion {
    /// The question answered by each option: with the option in place of every blank `_`, or behind
    /// the question where it has none.
    ///
    /// Of a blank that is written as several `_` each is replaced, as in the original.
    #[must_use]
    pub fn answered(&self) -> [String; OPTIONS] {
        self.options.each_ref().map(|option| match self.text.contains('_') {
            true => self.text.replace('_', option),
            false => format!("{} {option}", self.text),
        })
    }
}
