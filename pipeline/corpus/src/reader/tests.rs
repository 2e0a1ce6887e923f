//! Sources over files in a temporary folder.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

/// A folder of input files.
struct Input {
    folder: TempDir,
}

impl Input {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let input = Self { folder: tempfile::tempdir().unwrap() };
        for (name, bytes) in files {
            let path = input.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        input
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn jsonl(&self, names: &[&str]) -> SourceConfig {
        SourceConfig {
            name: "source".to_owned(),
            paths: names.iter().map(|name| self.path(name)).collect(),
            format: SourceFormat::Jsonl(JsonlConfig::default()),
        }
    }

    fn text(&self, include: &[&str], exclude: &[&str]) -> SourceConfig {
        let owned =
            |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        SourceConfig {
            name: "tree".to_owned(),
            paths: vec![self.path("")],
            format: SourceFormat::Text(TextTreeConfig {
                include: owned(include),
                exclude: owned(exclude),
            }),
        }
    }

    /// `error`'s message without the folder's name.
    fn message(&self, error: &CorpusError) -> String {
        error.to_string().replace(&self.path("").display().to_string(), "")
    }
}

fn open(source: SourceConfig, on_bad_line: OnBadLine) -> Sources {
    Sources::open(&[source], on_bad_line).unwrap()
}

fn items(source: SourceConfig, on_bad_line: OnBadLine) -> Vec<Item> {
    open(source, on_bad_line).collect::<Result<_, _>>().unwrap()
}

fn texts(source: SourceConfig) -> Vec<String> {
    items(source, OnBadLine::Fail)
        .into_iter()
        .map(|item| match item {
            Item::Document(document) => document.text,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn empty_white_and_null_texts_are_items_of_their_own() {
    let lines = b"{\"text\":\"\"}\n{\"text\":\"   \\n\"}\n{\"text\":null}\n{\"text\":\"words\"}\n";
    let input = Input::new(&[("a.jsonl", lines)]);
    let found = items(input.jsonl(&["a.jsonl"]), OnBadLine::Fail);
    let kinds: Vec<_> = found
        .iter()
        .map(|item| match item {
            Item::Document(document) => Some(document.text.as_str()),
            Item::NullText(provenance) => {
                assert_eq!(provenance.line, Some(3));
                None
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [Some(""), Some("   \n"), None, Some("words")]);
}

#[test]
fn missing_key_stops_with_file_line_and_remedy() {
    let good = "{\"text\":\"a\"}\n";
    let lines = format!("{good}{good}{{\"content\":\"b\"}}\n{}", good.repeat(7));
    let input = Input::new(&[("file.jsonl", lines.as_bytes())]);
    let mut sources = open(input.jsonl(&["file.jsonl"]), OnBadLine::Fail);
    assert_eq!(sources.by_ref().take(2).filter(Result::is_ok).count(), 2);
    let error = sources.next().unwrap().unwrap_err();
    assert_eq!(
        input.message(&error),
        "file.jsonl:3: no key \"text\" (keys present: content). Use --text-key content"
    );
    assert!(sources.next().is_none(), "nothing follows an error");
}

#[test]
fn skipping_keeps_all_good_lines_and_reports_the_bad_ones() {
    let lines = concat!(
        "{\"text\":\"one\",\"id\":\"x\"}\n",
        "{\"content\":\"b\"}\n",
        "{\"text\":42}\n",
        "{\"text\":[\"a\",\"b\"]}\n",
        "[1,2]\n",
        "\n",
        "{\"text\":\"ok\"} trailing\n",
        "{\"text\":\"two\"}\n",
    );
    let input = Input::new(&[("a.jsonl", lines.as_bytes())]);
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for item in items(input.jsonl(&["a.jsonl"]), OnBadLine::Skip) {
        match item {
            Item::Document(document) => {
                good.push((document.text, document.provenance.line.unwrap()))
            }
            Item::Rejected(reject) => {
                bad.push((
                    reject.provenance.line.unwrap(),
                    reject.byte_offset,
                    reject.reason.name(),
                ));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(good, [("one".to_owned(), 1), ("two".to_owned(), 8)]);
    assert_eq!(
        bad,
        [
            (2, 24, "missing_key"),
            (3, 40, "wrong_type"),
            (4, 52, "wrong_type"),
            (5, 71, "not_an_object"),
            (6, 77, "blank_line"),
            (7, 92, "syntax"),
        ]
    );
}

/// Line 7 holds invalid UTF-8, line 8 half a surrogate pair, line 9 a byte order mark, line 10 NUL and U+2028.
fn lines_of_broken_text() -> Vec<u8> {
    let mut lines = b"{\"text\":\"good\"}\n".repeat(6);
    lines.extend(b"{\"text\":\"a\xff\xfe\xe6b\"}\n");
    lines.extend(br#"{"text":"c\ud800d"}"#);
    lines.extend(b"\n\xef\xbb\xbf{\"text\":\"marked\"}\n");
    lines.extend("{\"text\":\"nul\\u0000 line\u{2028}end\"}\n".bytes());
    lines
}

#[test]
fn invalid_text_stops_with_line_and_byte_by_default() {
    let lines = lines_of_broken_text();
    let input = Input::new(&[("a.jsonl", &lines), ("b.jsonl", &lines[6 * 16 + 17..])]);
    let error = |name| open(input.jsonl(&[name]), OnBadLine::Fail).find_map(Result::err).unwrap();
    assert_eq!(input.message(&error("a.jsonl")), "a.jsonl:7: invalid UTF-8 (byte 106)");
    assert_eq!(
        input.message(&error("b.jsonl")),
        "b.jsonl:1: half of a surrogate pair in a \\u escape (byte 10)"
    );
}

#[test]
fn invalid_text_is_skipped_or_replaced_on_demand() {
    let input = Input::new(&[("a.jsonl", &lines_of_broken_text())]);
    let read = |on_bad_line| items(input.jsonl(&["a.jsonl"]), on_bad_line).split_off(6);

    let [
        Item::Rejected(utf8),
        Item::Rejected(surrogate),
        Item::Document(marked),
        Item::Document(nul),
    ] = &read(OnBadLine::Skip)[..]
    else {
        panic!("two lines skipped, two read");
    };
    assert_eq!((utf8.provenance.line, utf8.byte_offset), (Some(7), 106));
    assert_eq!((surrogate.provenance.line, surrogate.byte_offset), (Some(8), 123));
    assert_eq!((marked.text.as_str(), nul.text.as_str()), ("marked", "nul\0 line\u{2028}end"));

    let [
        Item::Repaired(utf8, repair),
        Item::Repaired(surrogate, _),
        Item::Document(_),
        Item::Document(_),
    ] = &read(OnBadLine::Replace)[..]
    else {
        panic!("two lines repaired, two read");
    };
    assert_eq!(utf8.text, "a\u{fffd}\u{fffd}\u{fffd}b");
    assert_eq!(surrogate.text, "c\u{fffd}d");
    assert_eq!((repair.reason.name(), repair.byte_offset), ("invalid_utf8", 106));
}

#[test]
fn last_line_may_lack_its_end_but_not_half_of_itself() {
    let input = Input::new(&[
        ("whole.jsonl", b"{\"text\":\"a\"}\n{\"text\":\"b\"}"),
        ("cut.jsonl", b"{\"text\":\"a\"}\n{\"text\":\"b"),
    ]);
    assert_eq!(texts(input.jsonl(&["whole.jsonl"])), ["a", "b"]);
    let error = open(input.jsonl(&["cut.jsonl"]), OnBadLine::Fail).find_map(Result::err).unwrap();
    assert_eq!(
        input.message(&error),
        "cut.jsonl:2: the record breaks off before its end (byte 23)"
    );
}

#[test]
fn empty_file_has_no_documents_and_line_ends_may_be_dos() {
    let input = Input::new(&[("a.jsonl", b""), ("b.jsonl", b"{\"text\":\"b\"}\r\n")]);
    assert_eq!(texts(input.jsonl(&["a.jsonl", "b.jsonl"])), ["b"]);
}

#[test]
fn order_is_sources_then_files_by_path_then_lines() {
    let line = |text: &str| format!("{{\"text\":\"{text}\"}}\n");
    let input = Input::new(&[
        ("in/b.jsonl", (line("3") + &line("4")).as_bytes()),
        ("in/a/z.jsonl", line("2").as_bytes()),
        ("in/a.jsonl", line("1").as_bytes()),
        ("first.jsonl", line("0").as_bytes()),
    ]);
    let mut folder = input.jsonl(&["in"]);
    folder.name = "second".to_owned();
    let mut sources =
        Sources::open(&[input.jsonl(&["first.jsonl"]), folder], OnBadLine::Fail).unwrap();
    assert_eq!((sources.total_bytes(), sources.bytes_read()), (5 * 13, 0));
    let found: Vec<_> = sources
        .by_ref()
        .map(|item| match item.unwrap() {
            Item::Document(document) => (document.text, document.provenance.source.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = ["0", "1", "2", "3", "4"]
        .map(|text| (text.to_owned(), if text == "0" { "source" } else { "second" }.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(sources.bytes_read(), sources.total_bytes());
}

#[test]
fn hidden_linked_and_unknown_files_of_a_folder_are_listed() {
    let line: &[u8] = b"{\"text\":\"a\"}\n";
    let input = Input::new(&[
        ("in/a.jsonl", line),
        ("in/._a.jsonl", line),
        ("in/.git/b.jsonl", line),
        ("in/README.md", b"no data"),
        ("elsewhere.jsonl", line),
    ]);
    std::os::unix::fs::symlink(input.path("elsewhere.jsonl"), input.path("in/link.jsonl")).unwrap();
    let sources = open(input.jsonl(&["in"]), OnBadLine::Fail);
    let mut skipped: Vec<_> = sources
        .skipped()
        .iter()
        .map(|skipped| (skipped.path.strip_prefix(input.path("in")).unwrap(), skipped.reason))
        .collect();
    skipped.sort_by_key(|(path, _)| path.to_path_buf());
    assert_eq!(
        skipped,
        [
            (Path::new("._a.jsonl"), SkipReason::Hidden),
            (Path::new(".git"), SkipReason::Hidden),
            (Path::new("README.md"), SkipReason::NotJsonl),
            (Path::new("link.jsonl"), SkipReason::SymbolicLink),
        ]
    );
    assert_eq!(sources.count(), 1);
}

#[test]
fn inputs_of_another_kind_are_refused_by_name() {
    let input = Input::new(&[
        ("a.jsonl.gz", b"\x1f\x8b"),
        ("a.parquet", b"PAR1"),
        ("data.xyz", b"?"),
        ("really-gzip.jsonl", b"\x1f\x8b\x08"),
        ("mixed/a.jsonl", b"{\"text\":\"a\"}\n"),
        ("mixed/b.jsonl.zst", b"\x28\xb5\x2f\xfd"),
        ("none/README.md", b"no data"),
    ]);
    fs::create_dir(input.path("empty")).unwrap();
    for (name, message) in [
        ("a.jsonl.gz", "a.jsonl.gz: not a plain JSONL file (gzip). Unpack it first"),
        ("a.parquet", "a.parquet: not a plain JSONL file (Parquet). Unpack it first"),
        ("data.xyz", "data.xyz: not a plain JSONL file (unknown file type). Name it *.jsonl if"),
        ("really-gzip.jsonl", "not a plain JSONL file (its first bytes are those of gzip)"),
        ("mixed", "mixed/b.jsonl.zst: not a plain JSONL file (Zstandard)"),
        ("none", "none: no file matches *.jsonl. Name the files themselves"),
        ("empty", "empty: no file matches *.jsonl"),
        ("missing.jsonl", "cannot read missing.jsonl: No such file"),
    ] {
        let result = Sources::open(&[input.jsonl(&[name])], OnBadLine::Skip);
        let error = result.and_then(|sources| sources.collect::<Result<Vec<_>, _>>()).unwrap_err();
        let found = input.message(&error);
        assert!(found.contains(message), "{name}: {found}");
    }
}

#[test]
fn sources_need_names_of_their_own() {
    let input = Input::new(&[("a.jsonl", b"")]);
    let same = [input.jsonl(&["a.jsonl"]), input.jsonl(&["a.jsonl"])];
    let error = Sources::open(&same, OnBadLine::Fail).unwrap_err();
    assert_eq!(
        error.to_string(),
        "source \"source\": another source has this name: give each its own"
    );
    assert!(Sources::open(&[], OnBadLine::Fail).is_err());
}

#[test]
fn title_under_the_key_of_text_or_identifier_is_refused() {
    let input = Input::new(&[("a.jsonl", b"{\"text\": \"a\", \"title\": \"T\"}\n")]);
    let titled = |key: &str| {
        let mut source = input.jsonl(&["a.jsonl"]);
        let title_key = Some(key.to_owned());
        source.format = SourceFormat::Jsonl(JsonlConfig { title_key, ..JsonlConfig::default() });
        Sources::open(&[source], OnBadLine::Fail)
    };
    for key in ["text", "id"] {
        assert!(titled(key).unwrap_err().to_string().contains("title_key is text_key or id_key"));
    }
    let Item::Document(document) = titled("title").unwrap().next().unwrap().unwrap() else {
        panic!("no document");
    };
    assert_eq!(document.title.as_deref(), Some("T"));
}

#[test]
fn text_tree_has_one_document_per_matching_file() {
    let input = Input::new(&[
        ("b/README.md", b"\xef\xbb\xbfreadme of b"),
        ("b/LICENSE-MIT", b"licence of b"),
        ("b/tests/notes.md", b"left out"),
        ("b/src/lib.rs", b"left out"),
        ("a/deep/down/guide.md", b"guide"),
        ("a.md", b""),
        (".hidden.md", b"left out"),
    ]);
    let source = input.text(&["*.md", "LICENSE*"], &["tests"]);
    let found: Vec<_> = items(source, OnBadLine::Fail)
        .into_iter()
        .map(|item| match item {
            Item::Document(Document { provenance, text, .. }) => {
                assert_eq!(provenance.line, None);
                let file = provenance.file.strip_prefix(input.path("")).unwrap();
                (file.display().to_string(), text)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ("a.md", ""),
        ("a/deep/down/guide.md", "guide"),
        ("b/LICENSE-MIT", "licence of b"),
        ("b/README.md", "readme of b"),
    ];
    assert_eq!(found, expected.map(|(file, text)| (file.to_owned(), text.to_owned())));
}

#[test]
fn patterns_with_a_slash_mean_the_whole_path() {
    let files: [(&str, &[u8]); 4] = [
        ("docs/a.txt", b"a"),
        ("docs/x/b.txt", b"b"),
        ("docs/x/y/c.txt", b"c"),
        ("other/docs/d.txt", b"d"),
    ];
    let input = Input::new(&files);
    assert_eq!(texts(input.text(&["docs/*.txt"], &[])), ["a"]);
    assert_eq!(texts(input.text(&["docs/**/*.txt"], &[])), ["a", "b", "c"]);
    assert_eq!(texts(input.text(&["*.txt"], &["docs/x"])), ["a", "d"]);
    let error = Sources::open(&[input.text(&["*.md", "*.rst"], &[])], OnBadLine::Fail).unwrap_err();
    assert_eq!(
        error.to_string().split_once(": ").unwrap().1,
        "no file matches *.md, *.rst. Check `include` and `exclude`"
    );
    assert!(Sources::open(&[input.text(&["[a"], &[])], OnBadLine::Fail).is_err());
}

#[test]
fn text_files_follow_the_same_policy() {
    let input = Input::new(&[("a.txt", b"\xef\xbb\xbfab\xffc")]);
    let source = || input.text(&["*.txt"], &[]);
    let error = open(source(), OnBadLine::Fail).next().unwrap().unwrap_err();
    assert_eq!(input.message(&error), "a.txt: invalid UTF-8 (byte 5)");
    assert!(matches!(&items(source(), OnBadLine::Skip)[..], [Item::Rejected(_)]));
    let repaired = items(source(), OnBadLine::Replace);
    let [Item::Repaired(document, reject)] = &repaired[..] else { panic!("{repaired:?}") };
    assert_eq!((document.text.as_str(), reject.byte_offset), ("ab\u{fffd}c", 5));
}
