//! Any bytes under any name: no reader panics, and none loses a record without a word.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const KEEP: ReadPolicy =
    ReadPolicy { on_bad_line: OnBadLine::Skip, on_bad_file: OnBadFile::KeepPrefix };

/// The items of a file of these bytes, and whether it is listed as broken; or the message of the
/// error that refuses it.
fn read(name: &str, bytes: &[u8], policy: ReadPolicy) -> Result<(Vec<Item>, bool), String> {
    let input = Input::new(&[(name, bytes)]);
    let source = SourceConfig::detect(input.path(name)).unwrap();
    let mut sources = Sources::open(&[source], policy).unwrap();
    let items: Result<Vec<Item>, CorpusError> = sources.by_ref().collect();
    let is_broken = !sources.broken().is_empty();
    items.map(|items| (items, is_broken)).map_err(|error| error.to_string())
}

fn line_of(item: &Item) -> Option<u64> {
    match item {
        Item::Document(document) | Item::Repaired(document, _) => document.provenance.line,
        Item::NullText(provenance) => provenance.line,
        Item::Rejected(reject) => reject.provenance.line,
    }
}

/// Damage of a file: bytes that become others, and where it is cut.
#[derive(Debug)]
struct Damage {
    bytes: Vec<(Index, u8)>,
    cut: Option<Index>,
}

impl Damage {
    fn of(&self, sound: &[u8]) -> Vec<u8> {
        let mut damaged = sound.to_vec();
        for (place, byte) in &self.bytes {
            damaged[place.index(sound.len())] = *byte;
        }
        damaged.truncate(self.cut.map_or(sound.len(), |cut| cut.index(sound.len())));
        damaged
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop::collection::vec(any::<(Index, u8)>(), 0..4);
    (bytes, any::<Option<Index>>()).prop_map(|(bytes, cut)| Damage { bytes, cut })
}

/// Bytes of which some are JSON.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        prop::sample::select(vec![
            "{\"text\":\"a\"}",
            "{\"text\":null}",
            "{\"text\":\"",
            "\"}",
            "\n",
            "\r\n",
            "\n\n",
            "[]",
            "\u{feff}",
            "\\ud800",
            "{\"text\":\"é\\n\"}\n",
            "{\"content\":\"b\"}\n",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Whether a file of these first bytes is refused whole: as UTF-16, or as packed.
fn is_refused(message: &str) -> bool {
    message.contains("UTF-16") || message.contains("its name says no compression")
}

#[test]
fn any_lines_give_an_item_each() {
    proptest!(|(bytes in noise(), replaces: bool)| {
        let on_bad_line = if replaces { OnBadLine::Replace } else { OnBadLine::Skip };
        match read("a.jsonl", &bytes, ReadPolicy { on_bad_line, ..KEEP }) {
            Err(message) => prop_assert!(is_refused(&message), "{}", message),
            Ok((items, is_broken)) => {
                let ends_in_feed = bytes.is_empty() || bytes.ends_with(b"\n");
                let feeds = bytes.iter().filter(|&&byte| byte == b'\n').count();
                let lines = feeds + usize::from(!ends_in_feed);
                prop_assert!(!is_broken || !ends_in_feed);
                let numbers: Vec<u64> = items.iter().filter_map(line_of).collect();
                let expected: Vec<u64> = (1..=(lines - usize::from(is_broken)) as u64).collect();
                prop_assert_eq!(numbers, expected);
            }
        }
        let _ = read("a.jsonl", &bytes, ReadPolicy::default());
    });
}

#[test]
fn any_text_is_one_item() {
    proptest!(|(bytes in noise(), replaces: bool)| {
        let on_bad_line = if replaces { OnBadLine::Replace } else { OnBadLine::Skip };
        match read("a.txt", &bytes, ReadPolicy { on_bad_line, ..KEEP }) {
            Err(message) => prop_assert!(is_refused(&message), "{}", message),
            Ok((items, is_broken)) => prop_assert_eq!((items.len(), is_broken), (1, false)),
        }
    });
}

#[test]
fn any_bytes_under_a_name_of_packed_files_or_tables_are_refused_or_listed() {
    proptest!(|(bytes in noise(), mark in 0..3_usize)| {
        let names = ["a.jsonl.gz", "a.jsonl.zst", "a.txt.gz", "a.txt.zst", "a.parquet"];
        for name in names {
            let marks: [&[u8]; 3] = [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PAR1"];
            let bytes = [marks[mark], &bytes].concat();
            if let Ok((items, is_broken)) = read(name, &bytes, KEEP) {
                prop_assert!(is_broken, "{}: {:?}", name, items);
            }
            let _ = read(name, &bytes, ReadPolicy::default());
        }
    });
}

#[test]
fn damaged_packed_files_are_listed_and_keep_a_prefix() {
    let lines = records(40);
    let sound = read("a.jsonl", &lines, KEEP).unwrap().0;
    let texts = |items: &[Item]| -> Vec<Option<String>> {
        let text = |item: &Item| match item {
            Item::Document(document) => Some(document.text.clone()),
            _ => None,
        };
        items.iter().map(text).collect()
    };
    let sound = texts(&sound);
    for (name, packed) in [("a.jsonl.gz", gzip(&lines)), ("a.jsonl.zst", zstd(&lines))] {
        proptest!(|(damage in damage())| {
            let Ok((items, is_broken)) = read(name, &damage.of(&packed), KEEP) else {
                return Ok(());
            };
            let numbers: Vec<u64> = items.iter().filter_map(line_of).collect();
            prop_assert_eq!(&numbers, &(1..=items.len() as u64).collect::<Vec<_>>());
            if !is_broken {
                prop_assert_eq!(texts(&items), sound.clone());
            }
        });
    }
}

#[test]
fn damaged_tables_are_refused_or_listed_or_have_all_rows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "parquet") {
            continue;
        }
        names.insert(path.clone());
        let sound = fs::read(&path).unwrap();
        proptest!(ProptestConfig::with_cases(100), |(damage in damage())| {
            let Ok((items, is_broken)) = read("a.parquet", &damage.of(&sound), KEEP) else {
                return Ok(());
            };
            let numbers: Vec<u64> = items.iter().filter_map(line_of).collect();
            prop_assert_eq!(&numbers, &(1..=items.len() as u64).collect::<Vec<_>>());
            prop_assert!(is_broken || items.len() == 6, "{:?}", items);
        });
    }
    assert_eq!(names.len(), 7);
}
