//! Which files a source consists of, and what is refused.

use super::*;

#[test]
fn file_that_changes_while_it_is_read_is_refused_and_progress_never_goes_back() {
    let keep = ReadPolicy { on_bad_line: OnBadLine::Skip, on_bad_file: OnBadFile::KeepPrefix };
    // More than a block.
    let plain = records(5_000);
    for (name, bytes) in [("a.jsonl", plain.clone()), ("a.jsonl.gz", gzip(&plain))] {
        for reads_first in [false, true] {
            let input = Input::new(&[(name, &bytes)]);
            let mut sources = Sources::open(&[input.jsonl(&[name])], keep).unwrap();
            if reads_first {
                sources.next().unwrap().unwrap();
            }
            let grown = [&bytes[..], &bytes].concat();
            fs::write(input.path(name), grown).unwrap();
            let mut before = 0;
            let error = loop {
                let item = sources.next().expect("the change is found before the end");
                assert!((before..=sources.total_bytes()).contains(&sources.bytes_read()));
                before = sources.bytes_read();
                if let Err(error) = item {
                    break input.message(&error);
                }
            };
            let (listed, found) = (bytes.len(), 2 * bytes.len());
            assert_eq!(
                error,
                format!(
                    "{name}: changed while it was read: {listed} bytes when the run began, \
                     {found} now. Start again when nothing writes to it"
                )
            );
        }
    }
}

#[test]
fn file_that_is_written_without_changing_its_length_is_refused() {
    let input = Input::new(&[("a.jsonl", LINE)]);
    let mut sources = open(input.jsonl(&["a.jsonl"]), OnBadLine::Skip);
    let block = sources.next_block().unwrap().parse();
    let file = fs::File::options().write(true).open(input.path("a.jsonl")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let error = input.message(&sources.accept(block).unwrap_err());
    let length = LINE.len();
    assert_eq!(
        error,
        format!(
            "a.jsonl: changed while it was read: {length} bytes when the run began, as many now, \
             but written since. Start again when nothing writes to it"
        )
    );
}

#[test]
fn file_that_is_cut_short_while_it_is_read_is_refused() {
    let plain = records(10_000);
    let input = Input::new(&[("a.jsonl", &plain)]);
    let mut sources = open(input.jsonl(&["a.jsonl"]), OnBadLine::Skip);
    sources.next().unwrap().unwrap();
    fs::File::options().write(true).open(input.path("a.jsonl")).unwrap().set_len(9).unwrap();
    let error = input.message(&sources.find_map(Result::err).unwrap());
    assert!(error.starts_with("a.jsonl: changed while it was read: "), "{error}");
}

#[test]
fn output_among_the_files_that_are_read_is_refused() {
    let input = Input::new(&[("in/a.jsonl", b""), ("in/deep/b.jsonl", b"")]);
    let refuses = |source: &SourceConfig, out: &str| match source.check_output(&input.path(out)) {
        Ok(()) => false,
        Err(CorpusError::OutputInInput { .. }) => true,
        Err(error) => panic!("{error}"),
    };
    std::os::unix::fs::symlink(input.path("in"), input.path("link")).unwrap();
    for (path, out, is_refused) in [
        ("in", "in/out", true),
        ("in", "in/new/out", true),
        ("in", "in", true),
        ("in", "link/out", true),
        ("link", "in/out", true),
        ("in", "in/.out", false),
        ("in", "out", false),
        ("in", "in-out", false),
        ("in/a.jsonl", "in/out", false),
        ("in/*.jsonl", "in/out", false),
        ("in/*/*.jsonl", "in/out", true),
        ("in/**/*.jsonl", "in/out", true),
    ] {
        assert_eq!(refuses(&input.jsonl(&[path]), out), is_refused, "{path} {out}");
    }
    assert!(refuses(&input.text(&[], &[]), "out"));
    assert!(!refuses(&input.text(&[], &["out"]), "out/data"));
    let error = input.jsonl(&["in"]).check_output(&input.path("in/out")).unwrap_err();
    assert_eq!(
        input.message(&error),
        "in/out: lies in the input in, which would be read with the output in it the next time. \
         Choose an output outside it"
    );
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
        Sources::open(&[input.jsonl(&["first.jsonl"]), folder], lines(OnBadLine::Fail)).unwrap();
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

/// What `sources` pass over, by path below `folder`, in that order.
fn skipped(sources: &Sources, folder: &Path) -> Vec<(String, SkipReason)> {
    let mut skipped: Vec<_> = sources
        .skipped()
        .iter()
        .map(|it| (it.path.strip_prefix(folder).unwrap().display().to_string(), it.reason))
        .collect();
    skipped.sort_by(|a, b| a.0.cmp(&b.0));
    skipped
}

/// The files of which documents are read, by name, in order.
fn files_read(input: &Input, sources: Sources) -> Vec<String> {
    sources
        .map(|item| match item.unwrap() {
            Item::Document(document) => {
                let file = document.provenance.file;
                file.strip_prefix(input.path("")).unwrap().display().to_string()
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

const LINE: &[u8] = b"{\"text\":\"a\"}\n";

#[test]
fn hidden_files_and_links_to_folders_are_listed_and_links_to_files_are_read() {
    let input = Input::new(&[
        ("in/a.jsonl", LINE),
        ("in/._a.jsonl", LINE),
        ("in/.git/b.jsonl", LINE),
        ("blobs/7f00", LINE),
        ("folder/c.jsonl", LINE),
    ]);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(input.path(target), input.path(name)).unwrap();
    };
    link("blobs/7f00", "in/link.jsonl");
    link("blobs/7f00", "in/other.jsonl");
    link("in/a.jsonl", "in/0.jsonl");
    link("folder", "in/linked");
    let sources = open(input.jsonl(&["in"]), OnBadLine::Fail);
    assert_eq!(
        skipped(&sources, &input.path("in")),
        [
            ("._a.jsonl".to_owned(), SkipReason::Hidden),
            (".git".to_owned(), SkipReason::Hidden),
            ("0.jsonl".to_owned(), SkipReason::SecondName),
            ("linked".to_owned(), SkipReason::LinkToFolder),
            ("other.jsonl".to_owned(), SkipReason::SecondName),
        ]
    );
    assert_eq!(files_read(&input, sources), ["in/a.jsonl", "in/link.jsonl"]);

    link("gone", "in/dangling.jsonl");
    let error = Sources::open(&[input.jsonl(&["in"])], ReadPolicy::default()).unwrap_err();
    assert!(input.message(&error).starts_with("cannot read in/dangling.jsonl"), "{error}");
}

#[test]
fn globs_select_files_in_the_order_of_their_paths() {
    let input = Input::new(&[
        ("d/b.jsonl", LINE),
        ("d/a.jsonl.gz", &gzip(LINE)),
        ("d/._c.jsonl", LINE),
        ("d/README.md", b"no data"),
        ("d/en/x.jsonl", LINE),
        ("d/en/deep/y.jsonl", LINE),
        ("d/fr/.z/w.jsonl", LINE),
        ("d/odd[1].jsonl", LINE),
    ]);
    let read = |pattern: &str| {
        files_read(&input, open(input.jsonl(&[pattern]), OnBadLine::Fail)).join(" ")
    };
    assert_eq!(read("d/*.jsonl"), "d/b.jsonl d/odd[1].jsonl");
    assert_eq!(read("d/*.jsonl*"), "d/a.jsonl.gz d/b.jsonl d/odd[1].jsonl");
    assert_eq!(read("d/{a,b}.jsonl{,.gz}"), "d/a.jsonl.gz d/b.jsonl");
    assert_eq!(read("d/*/x.jsonl"), "d/en/x.jsonl");
    assert_eq!(read("d/**/*.jsonl"), "d/b.jsonl d/en/deep/y.jsonl d/en/x.jsonl d/odd[1].jsonl");
    assert_eq!(read("d/odd[1].jsonl"), "d/odd[1].jsonl", "a name that exists is no pattern");

    let listed =
        |pattern: &str| skipped(&open(input.jsonl(&[pattern]), OnBadLine::Fail), &input.path("d"));
    assert_eq!(listed("d/b*"), []);
    assert_eq!(listed("d/*.jsonl"), [("._c.jsonl".to_owned(), SkipReason::Hidden)]);
    assert_eq!(
        listed("d/**/*.jsonl"),
        [("._c.jsonl".to_owned(), SkipReason::Hidden), ("fr/.z".to_owned(), SkipReason::Hidden)]
    );
    assert_eq!(listed("d/[be]*"), [("en".to_owned(), SkipReason::Folder)]);
}

#[test]
fn inputs_of_another_kind_are_refused_by_name_and_with_a_remedy() {
    let input = Input::new(&[
        ("a.parquet", b"PAR1"),
        ("a.jsonl.bz2", b"BZh9"),
        ("data.xyz", b"?"),
        ("a.txt", b"text"),
        ("really-gzip.jsonl", b"\x1f\x8b\x08"),
        ("really-plain.jsonl.gz", LINE),
        ("mixed/a.jsonl", LINE),
        ("mixed/b.txt", b"text"),
        ("none/README.md", b"no data"),
        ("hidden/.a.jsonl", LINE),
    ]);
    fs::create_dir(input.path("empty")).unwrap();
    for (name, message) in [
        ("a.parquet", "a.parquet: a Parquet file in a source of JSONL. Give each form a source"),
        ("a.jsonl.bz2", "a.jsonl.bz2: bzip2 is not read. Unpack it"),
        (
            "data.xyz",
            "data.xyz: unknown file type. Read are JSONL (*.jsonl, *.ndjson or *.json, with",
        ),
        ("a.txt", "a.txt: a text file in a source of JSONL. Give each form a source of its own"),
        ("really-gzip.jsonl", "Rename it to really-gzip.jsonl.gz"),
        ("really-plain.jsonl.gz", "Rename it to really-plain.jsonl"),
        ("mixed", "mixed/b.txt: a text file in a source of JSONL"),
        ("mixed/*", "mixed/b.txt: a text file in a source of JSONL"),
        ("none", "none/README.md: unknown file type"),
        ("none", "name a glob that selects the files wanted, such as 'none/*.jsonl'"),
        ("hidden", "hidden: holds no file but what is left out: 1 hidden or linked. Name files"),
        ("empty", "empty: holds no file. Name files, or a folder that holds some"),
        ("empty/*.jsonl", "empty/*.jsonl: no file matches. Check the pattern"),
        ("nowhere/*.jsonl", "cannot read nowhere: No such file"),
        ("empty/[a.jsonl", "empty/[a.jsonl: bad pattern: "),
        ("missing.jsonl", "cannot read missing.jsonl: No such file"),
    ] {
        let result = Sources::open(&[input.jsonl(&[name])], lines(OnBadLine::Skip));
        let error = result.and_then(|sources| sources.collect::<Result<Vec<_>, _>>()).unwrap_err();
        let found = input.message(&error);
        assert!(found.contains(message), "{name}: {found}");
    }
}

#[test]
fn files_of_records_are_no_text() {
    let input = Input::new(&[
        ("a.jsonl", LINE),
        ("a.jsonl.gz", &gzip(LINE)),
        ("a.ndjson", LINE),
        ("a.parquet", b"PAR1"),
        ("a.json", b"{\n}"),
    ]);
    let source =
        |name: &str| SourceConfig { paths: vec![input.path(name)], ..input.text(&[], &[]) };
    for name in ["a.jsonl", "a.jsonl.gz", "a.ndjson", "a.parquet", "a.[jn]*l"] {
        let error = Sources::open(&[source(name)], ReadPolicy::default()).unwrap_err();
        let message = input.message(&error);
        assert!(message.contains("in a source of text, which would read it as one"), "{message}");
    }
    let included = Sources::open(&[input.text(&["*.jsonl"], &[])], ReadPolicy::default());
    assert!(matches!(included, Err(CorpusError::UnreadForm { .. })));
    assert_eq!(texts(source("a.json")), ["{\n}"], "a text may be JSON");
}

#[test]
fn file_that_is_named_twice_is_refused_under_whatever_name() {
    let input = Input::new(&[("in/a.jsonl", LINE), ("in/b.jsonl", LINE)]);
    std::os::unix::fs::symlink(input.path("in/a.jsonl"), input.path("link.jsonl")).unwrap();
    let error = |names: &[&[&str]]| {
        let sources: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(number, names)| SourceConfig { name: number.to_string(), ..input.jsonl(names) })
            .collect();
        input.message(&Sources::open(&sources, ReadPolicy::default()).unwrap_err())
    };
    let remedy = "Its documents would be there twice: name it once";
    assert_eq!(
        error(&[&["in/a.jsonl", "in/a.jsonl"]]),
        format!("in/a.jsonl: read already. {remedy}")
    );
    assert_eq!(
        error(&[&["in"], &["in/../in/b.jsonl"]]),
        format!("in/../in/b.jsonl: read already as in/b.jsonl. {remedy}")
    );
    assert_eq!(
        error(&[&["link.jsonl", "in/*.jsonl"]]),
        format!("in/a.jsonl: read already as link.jsonl. {remedy}")
    );
}

#[test]
fn two_texts_of_a_file_are_two_sources() {
    let input = Input::new(&[("a.jsonl", b"{\"text\":\"body\",\"summary\":\"short\"}\n")]);
    let under = |key: &str| {
        let text_key = key.to_owned();
        let format = SourceFormat::Jsonl(JsonlConfig { text_key, ..JsonlConfig::default() });
        SourceConfig { name: key.to_owned(), format, ..input.jsonl(&["a.jsonl"]) }
    };
    let sources = Sources::open(&[under("text"), under("summary")], ReadPolicy::default());
    let found: Vec<String> = sources
        .unwrap()
        .map(|item| match item.unwrap() {
            Item::Document(document) => document.text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, ["body", "short"]);
}

#[test]
fn pipes_and_devices_are_no_files() {
    let input = Input::new(&[]);
    std::os::unix::fs::symlink("/dev/null", input.path("null.jsonl")).unwrap();
    let error = Sources::open(&[input.jsonl(&["null.jsonl"])], ReadPolicy::default()).unwrap_err();
    assert!(input.message(&error).starts_with("null.jsonl: a pipe or a device"), "{error}");
}

#[test]
fn paths_are_detected_as_what_they_hold() {
    let input = Input::new(&[
        ("lines/a.jsonl", LINE),
        ("lines/b.ndjson.gz", b""),
        ("text/a.txt", b"a"),
        ("text/b.txt.zst", b""),
        ("mixed/a.jsonl", LINE),
        ("mixed/b.jsonl.gz", b""),
        ("mixed/c.txt", b"c"),
        ("unknown/a.md", b"a"),
    ]);
    let detected = |name: &str| SourceConfig::detect(input.path(name));
    for name in ["lines", "lines/a.jsonl", "lines/*.gz", "mixed/*.jsonl"] {
        assert!(matches!(detected(name).unwrap().format, SourceFormat::Jsonl(_)), "{name}");
    }
    for name in ["text", "text/b.txt.zst", "mixed/*.txt"] {
        assert!(matches!(detected(name).unwrap().format, SourceFormat::Text(_)), "{name}");
    }
    assert_eq!(
        input.message(&detected("mixed").unwrap_err()),
        "mixed: holds files of several forms: 2 of JSONL, such as mixed/a.jsonl; 1 of text, such as mixed/c.txt. \
         Give each form as a source of its own: 'mixed/**/*{.jsonl,.jsonl.gz}' 'mixed/**/*.txt'"
    );
    assert_eq!(detected("mixed/**/*{.jsonl,.jsonl.gz}").unwrap().paths.len(), 1);
    let error = input.message(&detected("unknown").unwrap_err());
    assert!(error.starts_with("unknown/a.md: unknown file type"), "{error}");
}

#[test]
fn sources_need_names_of_their_own() {
    let input = Input::new(&[("a.jsonl", b""), ("b.jsonl", b"")]);
    let same = [input.jsonl(&["a.jsonl"]), input.jsonl(&["b.jsonl"])];
    let error = Sources::open(&same, lines(OnBadLine::Fail)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "source \"source\": another source has this name: give each its own"
    );
    assert!(Sources::open(&[], lines(OnBadLine::Fail)).is_err());
}

#[test]
fn title_under_the_key_of_text_or_identifier_is_refused() {
    let input = Input::new(&[("a.jsonl", b"{\"text\": \"a\", \"title\": \"T\"}\n")]);
    let titled = |key: &str| {
        let mut source = input.jsonl(&["a.jsonl"]);
        let title_key = Some(key.to_owned());
        source.format = SourceFormat::Jsonl(JsonlConfig { title_key, ..JsonlConfig::default() });
        Sources::open(&[source], lines(OnBadLine::Fail))
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
    let error =
        Sources::open(&[input.text(&["*.md", "*.rst"], &[])], lines(OnBadLine::Fail)).unwrap_err();
    assert_eq!(
        error.to_string().split_once(": ").unwrap().1,
        "no file matches. Check the folder, `include` and `exclude`"
    );
    assert!(Sources::open(&[input.text(&["[a"], &[])], lines(OnBadLine::Fail)).is_err());
}
