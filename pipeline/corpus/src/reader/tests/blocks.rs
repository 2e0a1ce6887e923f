//! Cutting, parsing and accepting by hand, and going on from a state.

use super::*;

const KEEP: ReadPolicy =
    ReadPolicy { on_bad_line: OnBadLine::Skip, on_bad_file: OnBadFile::KeepPrefix };

/// Files of every form, some of more than one block, one without a record, two that break off.
fn input() -> (Input, Vec<SourceConfig>) {
    let long = records(12_000);
    let packed = gzip(&long);
    let parquet = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet");
    let parquet = fs::read(parquet.join("utf8-snappy.parquet")).unwrap();
    let input = Input::new(&[
        ("lines/a.jsonl", &[&long[..], b"{\"content\":1}\nno record\n", &records(3)].concat()),
        ("lines/b.jsonl.gz", &packed),
        ("lines/c.jsonl", b""),
        ("lines/d.jsonl.gz", &packed[..packed.len() / 2]),
        ("lines/e.jsonl", b"{\"text\":\"whole\"}\n{\"text\":\"ha"),
        ("lines/f.jsonl.zst", &zstd(&records(9_000))),
        ("text/a.txt", b"one"),
        ("text/b.txt", b"tw\xff"),
        ("text/c.txt.gz", &gzip(b"three")[..20]),
        ("rows/a.parquet", &parquet),
        ("rows/b.parquet", &parquet[..parquet.len() / 2]),
    ]);
    let text = SourceFormat::Text(TextTreeConfig::default());
    let rows = SourceFormat::Parquet(ParquetConfig::default());
    let sources = vec![
        input.jsonl(&["lines"]),
        SourceConfig::new(input.path("text"), text),
        SourceConfig::new(input.path("rows"), rows),
    ];
    (input, sources)
}

/// Everything that `sources` say once they are read.
fn said(sources: &Sources) -> (Vec<BrokenFile>, Vec<PathBuf>, u64) {
    let empty = sources.empty_files().map(Path::to_owned).collect();
    (sources.broken().to_vec(), empty, sources.bytes_read())
}

#[test]
fn blocks_parsed_in_any_order_give_what_the_iterator_gives() {
    let (_input, configs) = input();
    let mut one = Sources::open(&configs, KEEP).unwrap();
    let expected: Vec<Item> = one.by_ref().collect::<Result<_, _>>().unwrap();
    assert!(expected.len() > 30_000, "{}", expected.len());

    let mut sources = Sources::open(&configs, KEEP).unwrap();
    let blocks: Vec<RecordBlock> = std::iter::from_fn(|| sources.next_block()).collect();
    let mut parsed: Vec<ParsedBlock> = blocks.into_iter().rev().map(RecordBlock::parse).collect();
    parsed.reverse();
    let files: Vec<u32> = parsed.iter().map(ParsedBlock::file).collect();
    assert!(files.is_sorted() && files.len() > 15 && files.last() == Some(&10), "{files:?}");
    let mut items = Vec::new();
    for block in parsed {
        items.extend(sources.accept(block).unwrap());
    }
    assert!(items == expected);
    assert_eq!(said(&sources), said(&one));
    let (broken, empty, bytes_read) = said(&sources);
    assert_eq!((broken.len(), empty.len(), bytes_read), (4, 1, sources.total_bytes()));
}

#[test]
fn every_state_goes_on_with_the_items_behind_it() {
    let (_input, configs) = input();
    let mut whole = Sources::open(&configs, KEEP).unwrap();
    let mut states = vec![(whole.state(), 0)];
    let mut items = Vec::new();
    while let Some(block) = whole.next_block() {
        items.extend(whole.accept(block.parse()).unwrap());
        states.push((whole.state(), items.len()));
    }
    for (state, num_before) in states {
        let written = serde_json::to_string(&state).unwrap();
        let mut sources = Sources::open(&configs, KEEP).unwrap();
        sources.skip_to(&serde_json::from_str(&written).unwrap());
        assert_eq!(sources.state(), state);
        let rest: Vec<Item> = sources.by_ref().collect::<Result<_, _>>().unwrap();
        assert!(rest == items[num_before..], "{written}");
        assert_eq!(said(&sources), said(&whole), "{written}");
    }
}

#[test]
fn error_comes_where_it_stands_and_not_where_it_is_met() {
    let input = Input::new(&[("a.jsonl", b"{\"text\":\"a\"}\n{\"text\":1}\n"), ("b.jsonl", b"")]);
    let mut sources = open(input.jsonl(&["a.jsonl", "b.jsonl"]), OnBadLine::Fail);
    fs::remove_file(input.path("b.jsonl")).unwrap();
    let blocks: Vec<RecordBlock> = std::iter::from_fn(|| sources.next_block()).collect();
    assert_eq!(blocks.len(), 2, "nothing is cut behind a file that cannot be read");
    let errors: Vec<String> = blocks
        .into_iter()
        .map(|block| input.message(&sources.accept(block.parse()).unwrap_err()))
        .collect();
    assert!(errors[0].starts_with("a.jsonl:2: key \"text\" holds a number"), "{errors:?}");
    assert!(errors[1].starts_with("cannot read b.jsonl: No such file"), "{errors:?}");
}
