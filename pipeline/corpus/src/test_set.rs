//! Test sets: what must not be trained on, cut into items.
//!
//! The name of a file says its form. What a source would read as JSONL or Parquet (`*.jsonl`,
//! `*.jsonl.gz`, `*.parquet`) is a benchmark such as LAMBADA with one item a record, whose text
//! stands under a key. Every other file is text in WikiText's form, unpacked where its name ends in
//! `.gz` or `.zst`: an article begins at each level-1 heading (` = Title = `, between blank lines),
//! and a file without headings is one item. Nothing is compared across the border of two items.
//!
//! A folder or a glob stands for its files, as it does in a source. There a name must say the form.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::observer::{Observer, stop_if_asked};
use crate::reader::{
    Item, JsonlConfig, OnBadLine, ParquetConfig, ReadPolicy, Reject, RejectReason, SourceConfig,
    SourceFormat, Sources, TextTreeConfig,
};
use crate::{CorpusError, Document, FileSummary};

/// An item of a test set: an article, or a record of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestItem {
    /// File of the test set.
    pub file: Arc<Path>,
    /// Line of the heading or of the record, counted from 1; 1 for text before the first heading.
    pub line: u64,
    /// The heading, without its marks; `None` for a record and for text before the first heading.
    pub title: Option<String>,
    /// The record's own identifier.
    pub id: Option<String>,
}

impl TestItem {
    /// The title of an article, the identifier of a record.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.title.as_deref().or(self.id.as_deref())
    }
}

/// What the user calls the settings by which test sets are given, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingNames {
    /// The list of test sets, from the top of the configuration.
    pub test_sets: &'static str,
    /// The same in the words that a file is named with.
    pub list: &'static str,
    /// The key of the text.
    pub text_key: &'static str,
}

/// All test sets of a run.
#[derive(Debug)]
pub struct TestSets {
    /// The items with their texts, in the order of the files. An article's text begins with its
    /// heading.
    pub contents: Vec<(TestItem, String)>,
    /// Number of records whose text is null, for each test set that has some.
    pub null_records: Vec<(PathBuf, u64)>,
    /// Size and checksum of each file, in the order in which they are read.
    pub files: Vec<(PathBuf, FileSummary)>,
    /// The path under which each file was met first, by its path without links.
    met: HashMap<PathBuf, PathBuf>,
    names: SettingNames,
}

impl TestSets {
    /// No test set yet; messages speak of settings by `names`.
    #[must_use]
    pub fn new(names: SettingNames) -> Self {
        Self {
            contents: Vec::new(),
            null_records: Vec::new(),
            files: Vec::new(),
            met: HashMap::new(),
            names,
        }
    }

    /// Reads one more test set.
    ///
    /// # Errors
    ///
    /// [`CorpusError::TestSet`] for a path that cannot be read, that was read before, that is
    /// empty, or in which a record or the encoding is faulty; [`CorpusError::Stopped`] where the
    /// observer asks to stop.
    pub fn add(
        &mut self,
        path: &Path,
        text_key: &str,
        observer: &dyn Observer,
    ) -> Result<(), CorpusError> {
        let names = self.names;
        let problem = |error| fault(path, problem_of(path, error, names));
        let source = source_of(path, text_key).map_err(problem)?;
        let is_text = matches!(source.format, SourceFormat::Text(_));
        // Replaced characters are an error here too, of which the text then tells the line.
        let on_bad_line = if is_text { OnBadLine::Replace } else { OnBadLine::Fail };
        let policy = ReadPolicy { on_bad_line, ..ReadPolicy::default() };
        let sources = Sources::open(&[source], policy).map_err(problem)?;
        self.check_unmet(&sources)?;
        let files: Vec<PathBuf> = sources.files().map(|file| file.path.to_owned()).collect();
        for file in &files {
            self.files.push((file.clone(), FileSummary::of(file).map_err(problem)?));
        }

        let (first, mut null_records) = (self.contents.len(), 0);
        for item in sources {
            stop_if_asked(observer)?;
            match item.map_err(problem)? {
                Item::Document(document) if is_text => self.add_articles(document),
                Item::Document(document) => self.add_record(document),
                Item::NullText(_) => null_records += 1,
                Item::Repaired(document, reject) => {
                    return Err(fault(path, no_utf8(path, &document, &reject)));
                }
                Item::Rejected(reject) => {
                    return Err(problem(CorpusError::BadRecord(Box::new(reject))));
                }
            }
        }
        let texts = self.contents[first..].iter().filter(|(_, text)| !text.trim().is_empty());
        let files_with_text: HashSet<&Path> = texts.map(|(item, _)| &*item.file).collect();
        if let Some(empty) = files.iter().find(|file| !files_with_text.contains(&***file)) {
            let file = other_file(path, empty);
            let problem = format!("{file}it is empty. Name another file in {}", names.list);
            return Err(fault(path, problem));
        }
        if null_records > 0 {
            self.null_records.push((path.to_owned(), null_records));
        }
        Ok(())
    }

    /// Refuses a file that was read before, whose items would all be there twice.
    fn check_unmet(&mut self, sources: &Sources) -> Result<(), CorpusError> {
        for file in sources.files() {
            let identity = file.path.canonicalize().map_err(CorpusError::io("read", file.path))?;
            if let Some(first) = self.met.insert(identity, file.path.to_owned()) {
                let under = if first == file.path {
                    String::new()
                } else {
                    format!(" as {}", first.display())
                };
                let problem =
                    format!("read already{under}. Its items would be there twice: name it once");
                return Err(fault(file.path, problem));
            }
        }
        Ok(())
    }

    fn add_record(&mut self, document: Document) {
        let provenance = document.provenance;
        let line = provenance.line.unwrap_or(1);
        let item = TestItem { file: provenance.file, line, title: None, id: provenance.id };
        self.contents.push((item, document.text));
    }

    fn add_articles(&mut self, document: Document) {
        let file = document.provenance.file;
        self.contents.extend(articles(&document.text).into_iter().map(|article| {
            let Article { line, title, text } = article;
            let (file, title) = (Arc::clone(&file), title.map(str::to_owned));
            (TestItem { file, line, title, id: None }, text.to_owned())
        }));
    }
}

/// Maker of [`CorpusError::TestSet`] values.
fn fault(path: &Path, problem: String) -> CorpusError {
    CorpusError::TestSet { path: path.to_owned(), problem }
}

/// The source that a path stands for; a file whose name stands for no form is text. The text of
/// records stands under `text_key`.
///
/// # Errors
///
/// A path that does not exist or holds no file, a folder that holds several forms, and a file of
/// unknown form in one.
pub fn source_of(path: &Path, text_key: &str) -> Result<SourceConfig, CorpusError> {
    let text = || SourceFormat::Text(TextTreeConfig::default());
    let source = match SourceConfig::detect(path) {
        Err(CorpusError::UnreadForm { .. }) if path.is_file() => SourceConfig::new(path, text()),
        detected => detected?,
    };
    let text_key = text_key.to_owned();
    let format = match source.format {
        SourceFormat::Jsonl(keys) => SourceFormat::Jsonl(JsonlConfig { text_key, ..keys }),
        SourceFormat::Parquet(columns) => {
            SourceFormat::Parquet(ParquetConfig { text_column: text_key, ..columns })
        }
        SourceFormat::Text(_) => text(),
    };
    Ok(SourceConfig { format, ..source })
}

/// What is wrong with a test set, without its name, and the remedy.
fn problem_of(path: &Path, error: CorpusError, names: SettingNames) -> String {
    match error {
        CorpusError::BadRecord(reject) => {
            let Reject { provenance, byte_offset, reason, .. } = &*reject;
            let file = other_file(path, &provenance.file);
            let line = provenance.line.unwrap_or(1);
            let remedy = match reason {
                RejectReason::MissingKey { .. } => format!(". Set {}", names.text_key),
                _ => format!(" (byte {byte_offset}). Mend or remove the line"),
            };
            format!("{file}line {line}: {reason}{remedy}")
        }
        CorpusError::BrokenFile(broken) => {
            format!("{}. Get the file anew", without_name(path, broken.to_string()))
        }
        CorpusError::Io { action, source, path: file } => format!(
            "{}cannot {action} it: {source}. Check {}",
            other_file(path, &file),
            names.test_sets
        ),
        CorpusError::UnreadForm { path: file, found, .. } => format!(
            "{}{found}. In a folder or glob a name must say the form: name the file by itself in {}, \
             or select others with a glob",
            other_file(path, &file),
            names.list
        ),
        CorpusError::MixedForms { held, .. } => {
            format!(
                "it holds files of several forms: {held}. Name each in {} by itself",
                names.list
            )
        }
        other => without_name(path, other.to_string()),
    }
}

/// The fault of a text that is no UTF-8, of which `document` has all that is.
fn no_utf8(path: &Path, document: &Document, reject: &Reject) -> String {
    let offset = reject.byte_offset as usize;
    // Up to its first fault the text is that of the file, but for a byte order mark.
    let before = document.text.as_bytes().iter().take(offset);
    let line = 1 + before.filter(|&&byte| byte == b'\n').count();
    let file = other_file(path, &reject.provenance.file);
    format!("{file}line {line} is no UTF-8 (byte {offset}). Convert the file to UTF-8")
}

/// `FILE: `, where a test set is a folder or glob and the fault lies in one of its files.
fn other_file(path: &Path, file: &Path) -> String {
    if file == path { String::new() } else { format!("{}: ", file.display()) }
}

/// A message without the test set's name at its beginning.
fn without_name(path: &Path, message: String) -> String {
    let name = format!("{}: ", path.display());
    message.strip_prefix(&name).map_or_else(|| message.clone(), str::to_owned)
}

/// An article of a text in WikiText's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Article<'t> {
    /// Line of the heading, counted from 1; 1 for text before the first heading.
    pub line: u64,
    /// The heading without its marks; `None` for text before the first heading.
    pub title: Option<&'t str>,
    /// The text, heading included.
    pub text: &'t str,
}

/// Cuts a text at its level-1 headings. Text before the first that is no more than white space is
/// no article; the others follow one another without a gap.
///
/// A heading stands between blank lines. An article may hold an equation that its line breaks
/// make look like one (` = 1 rad / s and a nominal impedance k = `).
#[must_use]
pub fn articles(text: &str) -> Vec<Article<'_>> {
    let mut starts = vec![(0, 1, None)];
    let mut lines = text.split_inclusive('\n').zip(1_u64..).peekable();
    let (mut offset, mut follows_blank) = (0, true);
    while let Some((line, number)) = lines.next() {
        let precedes_blank = lines.peek().is_none_or(|(next, _)| next.trim().is_empty());
        if follows_blank
            && precedes_blank
            && let Some(title) = level_1_title(line)
        {
            starts.push((offset, number, Some(title)));
        }
        follows_blank = line.trim().is_empty();
        offset += line.len();
    }
    let ends = starts.iter().skip(1).map(|&(start, ..)| start).chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&(start, line, title), end)| Article { line, title, text: &text[start..end] })
        .filter(|it| it.title.is_some() || !it.text.trim().is_empty())
        .collect()
}

/// The title in a line ` = Title = `; deeper headings are written ` = = Title = = `.
fn level_1_title(line: &str) -> Option<&str> {
    let title = line.trim().strip_prefix("= ")?.strip_suffix(" =")?.trim();
    let is_deeper = title.starts_with("= ") || title.ends_with(" =");
    (!title.is_empty() && title != "=" && !is_deeper).then_some(title)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::Silent;

    const NAMES: SettingNames = SettingNames {
        test_sets: "decontamination.test_sets",
        list: "test_sets",
        text_key: "decontamination.text_key",
    };

    fn read_as(name: &str, content: &[u8]) -> Result<Vec<(TestItem, String)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        contents_of(&path).map_err(|error| {
            error.strip_prefix(&format!("test set {}: ", path.display())).unwrap().to_owned()
        })
    }

    fn contents_of(path: &Path) -> Result<Vec<(TestItem, String)>, String> {
        let mut test_sets = TestSets::new(NAMES);
        test_sets.add(path, "text", &Silent).map_err(|error| error.to_string())?;
        Ok(test_sets.contents)
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
    fn articles_begin_at_level_1_headings() {
        let text = b"before \n \n = A = \n \n x \n \n = = B = = \n \n y \n \n = C = \n";
        let items = read_as("a.tokens", text);
        let seen: Vec<_> = items
            .unwrap()
            .into_iter()
            .map(|(item, text)| (item.line, item.title, text.split_whitespace().count()))
            .collect();
        assert_eq!(seen, [(1, None, 1), (3, Some("A".into()), 10), (11, Some("C".into()), 3)]);
    }

    #[test]
    fn equations_inside_an_article_are_no_headings() {
        let text = "= A =\r\n\r\nThe frequency is omega\r\n= 1 rad / s and k =\r\n1 ohm\r\n";
        for text in [text, " = A = \n \n L \n = 1 H and C = \n \n x \n \n = 2 V and I = \n 1 \n"] {
            let items = read_as("a.tokens", text.as_bytes()).unwrap();
            assert_eq!(items.len(), 1, "{items:?}");
            assert_eq!((items[0].0.name(), items[0].1.as_str()), (Some("A"), text));
        }
    }

    #[test]
    fn text_without_headings_is_one_item() {
        let items = read_as("a.txt", "\u{feff}one\ntwo\n".as_bytes()).unwrap();
        assert_eq!((items.len(), items[0].1.as_str()), (1, "one\ntwo\n"));
    }

    #[test]
    fn each_record_of_a_benchmark_is_an_item() {
        let lines = b"{\"text\": \"one\"}\n{\"text\": null}\n{\"id\": 7, \"text\": \"= two =\"}\n";
        for name in ["a.jsonl", "a.ndjson"] {
            let items = read_as(name, lines).unwrap();
            let seen: Vec<_> = items
                .iter()
                .map(|(item, text)| (item.line, item.id.as_deref(), text.as_str()))
                .collect();
            assert_eq!(seen, [(1, None, "one"), (3, Some("7"), "= two =")]);
            assert!(items.iter().all(|(item, _)| item.title.is_none()));
        }
    }

    #[test]
    fn faults_have_their_place_and_a_remedy() {
        for (name, content, problem) in [
            ("a.tokens", &b" \n\n"[..], "it is empty. Name another file"),
            ("a.jsonl", b"", "it is empty. Name another file"),
            ("a.jsonl", b"{\"text\": \" \"}\n", "it is empty. Name another file"),
            ("a.tokens", b"one\ntwo \xff", "line 2 is no UTF-8 (byte 8). Convert the file"),
            ("a.jsonl", b"{\"text\": \"\xff\"}", "line 1: invalid UTF-8 (byte 10). Mend or remove"),
            (
                "a.jsonl",
                b"{\"text\": \"a\"}\n{\"text\": 7}\n",
                "line 2: key \"text\" holds a number",
            ),
            (
                "a.jsonl",
                b"{\"text\": \"a\"}\n{\"te",
                "breaks off at byte 18, in line 2, after 1 document: the last record is cut off. Get",
            ),
            (
                "a.jsonl",
                b"{\"question\": \"a\"}\n",
                "line 1: no key \"text\" (keys present: question). Set decontamination.text_key",
            ),
        ] {
            let found = read_as(name, content).unwrap_err();
            assert!(found.starts_with(problem), "{found}");
        }
        for name in ["no/such.tokens", "no/such.jsonl"] {
            let error = contents_of(Path::new(name)).unwrap_err();
            assert!(error.starts_with(&format!("test set {name}: cannot read it: No such file")));
            assert!(error.ends_with("Check decontamination.test_sets"), "{error}");
        }
    }

    #[test]
    fn packed_text_is_unpacked() {
        let text = " = A = \n \n x \n \n = B = \n \n y \n";
        let expected: Vec<_> = read_as("a.tokens", text.as_bytes()).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        for name in ["a.tokens.gz", "a.txt.gz"] {
            let items = read_as(name, &gzip).unwrap();
            let same = |one: &(TestItem, String), other: &(TestItem, String)| {
                (one.0.line, &one.0.title, &one.1) == (other.0.line, &other.0.title, &other.1)
            };
            assert!(items.len() == 2 && items.iter().zip(&expected).all(|(a, b)| same(a, b)));
        }
        let cut = read_as("a.tokens.gz", &gzip[..gzip.len() - 9]).unwrap_err();
        assert!(cut.starts_with("breaks off at byte ") && cut.ends_with("Get the file anew"));
        let misnamed = read_as("a.tokens", &gzip).unwrap_err();
        assert!(misnamed.starts_with("its name says no compression, but its first bytes say gzip"));
        let bzip2 = read_as("a.tokens.bz2", b"BZh91AY&SY").unwrap_err();
        assert!(bzip2.contains("bzip2 is not read here: unpack it"), "{bzip2}");
    }

    #[test]
    fn a_folder_or_glob_stands_for_its_files_and_must_name_their_form() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("b.txt", "two").unwrap();
        write("a.txt", "\n= One =\n\none\n").unwrap();
        for path in [folder.path().to_owned(), folder.path().join("*.txt")] {
            let items = contents_of(&path).unwrap();
            let names: Vec<_> =
                items.iter().map(|(item, _)| item.file.file_name().unwrap()).collect();
            assert_eq!(names, ["a.txt", "b.txt"]);
        }
        write("d.txt", " \n").unwrap();
        let error = contents_of(folder.path()).unwrap_err();
        assert!(error.contains("d.txt: it is empty. Name another file"), "{error}");
        std::fs::remove_file(folder.path().join("d.txt")).unwrap();
        write("c.tokens", "three").unwrap();
        let error = contents_of(folder.path()).unwrap_err();
        assert!(error.contains("c.tokens: unknown file type. In a folder or glob"), "{error}");
        std::fs::remove_file(folder.path().join("c.tokens")).unwrap();
        write("c.jsonl", "{\"text\": \"three\"}").unwrap();
        let error = contents_of(folder.path()).unwrap_err();
        assert!(error.contains("it holds files of several forms: 1 of JSONL, such as"), "{error}");
        let error = contents_of(&folder.path().join("*.parquet")).unwrap_err();
        assert!(error.contains("parquet: no file matches"), "{error}");
    }

    #[test]
    fn a_file_is_refused_under_a_second_name() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["a.tokens", "b.tokens"].map(|name| folder.path().join(name));
        std::fs::write(&file, "one two").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut test_sets = TestSets::new(NAMES);
        test_sets.add(&file, "text", &Silent).unwrap();
        let same = test_sets.add(&file, "text", &Silent).unwrap_err().to_string();
        assert!(same.ends_with("read already. Its items would be there twice: name it once"));
        let linked = test_sets.add(&link, "text", &Silent).unwrap_err().to_string();
        assert!(linked.contains("b.tokens: read already as ") && linked.contains("a.tokens. Its"));
        assert_eq!(test_sets.contents.len(), 1);
    }
}
