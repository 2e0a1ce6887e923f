//! RACE's own folder: `SPLIT/LEVEL/N.txt`, each file a JSON object, or one a line.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tracing::warn;

use super::question::{OPTIONS, RaceArticle, RaceLevel, RaceQuestion, RaceSplit};
use crate::observer::stop_if_asked;
use crate::{CorpusError, Observer, Unit};

/// Letters of the answers, in the order of the options.
const LETTERS: [&str; OPTIONS] = ["A", "B", "C", "D"];

/// The articles of one split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaceSet {
    /// Which split.
    pub split: RaceSplit,
    /// Its articles: level by level, by the numbers of their files, and as they stand in a file.
    pub articles: Vec<RaceArticle>,
}

/// An article as it is published.
#[derive(Debug, Deserialize)]
struct Record {
    article: String,
    questions: Vec<String>,
    options: Vec<Vec<String>>,
    answers: Vec<String>,
    id: Option<String>,
}

impl RaceSet {
    /// Reads the articles of `levels` of a split of the folder `race`.
    ///
    /// # Errors
    ///
    /// [`CorpusError::Race`] with file and line where a folder is lacking or empty, a file is no
    /// such record, a question has not four options or no answer among A to D, or two articles
    /// have one name; [`CorpusError::Stopped`] where `observer` asks to stop.
    pub fn read(
        race: &Path,
        split: RaceSplit,
        levels: &[RaceLevel],
        observer: &dyn Observer,
    ) -> Result<Self, CorpusError> {
        let mut files = Vec::new();
        for &level in levels {
            let folder = folder_of(race, split, level)?;
            files.extend(files_of(&folder)?.into_iter().map(|file| (level, file)));
        }
        observer.begin(&format!("read RACE {split}"), Some(files.len() as u64), Unit::Documents);
        let mut set = Self { split, articles: Vec::new() };
        for (level, file) in files {
            stop_if_asked(observer)?;
            set.articles.extend(read_file(&file, level)?);
            observer.advance(1);
        }
        observer.finish();
        set.check_ids()?;
        Ok(set)
    }

    /// Questions of one level.
    #[must_use]
    pub fn num_questions_of(&self, level: RaceLevel) -> usize {
        let articles = self.articles.iter().filter(|article| article.level == level);
        articles.map(|article| article.questions.len()).sum()
    }

    /// Questions of all levels.
    #[must_use]
    pub fn num_questions(&self) -> usize {
        self.articles.iter().map(|article| article.questions.len()).sum()
    }

    /// Refuses two articles of one name, whose questions could not be told apart.
    fn check_ids(&self) -> Result<(), CorpusError> {
        let mut met: HashMap<&str, &RaceArticle> = HashMap::new();
        for article in &self.articles {
            if let Some(earlier) = met.insert(&article.id, article) {
                let problem = format!(
                    "the id {:?} is that of {}:{} too; give each article its own",
                    article.id,
                    earlier.file.display(),
                    earlier.line
                );
                return Err(fault(&article.file, Some(article.line), problem));
            }
        }
        Ok(())
    }
}

/// The folder of a level of a split.
fn folder_of(race: &Path, split: RaceSplit, level: RaceLevel) -> Result<PathBuf, CorpusError> {
    for (folder, name) in [(race.to_owned(), split.name()), (race.join(split.name()), level.name())]
    {
        if folder.join(name).is_dir() {
            continue;
        }
        let found = names_in(&folder)?;
        let problem = match (&found[..], race.join("RACE").is_dir()) {
            (_, true) => {
                format!("no folder {name} here; RACE lies in {}", race.join("RACE").display())
            }
            ([], _) => format!("no folder {name} here, and no other; give the folder of RACE"),
            _ => format!(
                "no folder {name} here (there are {}); RACE has train, dev and test, each with middle \
                 and high",
                found.join(", ")
            ),
        };
        return Err(fault(&folder, None, problem));
    }
    Ok(race.join(split.name()).join(level.name()))
}

/// The names of the folders in a folder, sorted.
fn names_in(folder: &Path) -> Result<Vec<String>, CorpusError> {
    let entries = fs::read_dir(folder).map_err(CorpusError::io("list", folder))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(CorpusError::io("list", folder))?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The files of a level, by their numbers; those that are no `N.txt` come last, by their names.
/// Hidden ones are none.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, CorpusError> {
    let entries = fs::read_dir(folder).map_err(CorpusError::io("list", folder))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(CorpusError::io("list", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && !name.starts_with('.') && name.ends_with(".txt") {
            files.push(path);
        }
    }
    let number = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (stem.parse::<u64>().unwrap_or(u64::MAX), stem)
    };
    files.sort_by_cached_key(number);
    match files.is_empty() {
        false => Ok(files),
        true => Err(fault(folder, None, "no *.txt in it; get RACE anew".to_owned())),
    }
}

/// The articles of a file.
fn read_file(path: &Path, level: RaceLevel) -> Result<Vec<RaceArticle>, CorpusError> {
    let bytes = fs::read(path).map_err(CorpusError::io("read", path))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid].iter().filter(|&&byte| byte == b'\n').count();
        fault(path, Some(line as u64), format!("no UTF-8 at byte {valid}; get the file anew"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // One object over several lines is one object all the same.
    if let Ok(record) = serde_json::from_str::<Record>(text) {
        return Ok(vec![article(path, 1, record, level)?]);
    }
    let mut articles = Vec::new();
    for (line, record) in (1..).zip(text.lines()).filter(|(_, record)| !record.trim().is_empty()) {
        let record = serde_json::from_str::<Record>(record).map_err(|error| {
            let problem = format!(
                "{error}; a JSON object with article, questions, options and answers is needed"
            );
            fault(path, Some(line), problem)
        })?;
        articles.push(article(path, line, record, level)?);
    }
    match articles.is_empty() {
        false => Ok(articles),
        true => Err(fault(path, None, "it is empty; get the file anew".to_owned())),
    }
}

/// The article of a record at `line` of the file `path`.
fn article(
    path: &Path,
    line: u64,
    record: Record,
    level: RaceLevel,
) -> Result<RaceArticle, CorpusError> {
    let Record { article, questions, options, answers, id } = record;
    let refuse = |problem: String| Err(fault(path, Some(line), problem));
    let counts = [questions.len(), options.len(), answers.len()];
    if counts.iter().any(|&count| count != counts[0]) || counts[0] == 0 {
        return refuse(format!(
            "{} questions, {} lists of options and {} answers; as many of each are needed, and one \
             at least",
            counts[0], counts[1], counts[2]
        ));
    }
    if article.trim().is_empty() {
        warn!("{}:{line}: the article is empty", path.display());
    }
    let mut read = Vec::with_capacity(counts[0]);
    for (number, ((text, options), answer)) in
        questions.into_iter().zip(options).zip(answers).enumerate()
    {
        let options: [String; OPTIONS] = match options.try_into() {
            Ok(options) => options,
            Err(options) => {
                let found = options.len();
                return refuse(format!(
                    "question {number} has {found} options; it needs {OPTIONS}"
                ));
            }
        };
        let Some(answer) = LETTERS.iter().position(|&letter| letter == answer) else {
            return refuse(format!(
                "the answer to question {number} is {answer:?}; A, B, C or D is needed"
            ));
        };
        read.push(RaceQuestion { text, options, answer });
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let id = id.unwrap_or_else(|| match line {
        1 => format!("{level}{name}"),
        _ => format!("{level}{name}:{line}"),
    });
    Ok(RaceArticle { file: path.to_owned(), line, id, level, text: article, questions: read })
}

/// Maker of [`CorpusError::Race`] values.
fn fault(path: &Path, line: Option<u64>, problem: String) -> CorpusError {
    CorpusError::Race { path: path.to_owned(), line, problem }
}
