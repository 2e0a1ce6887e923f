//! Parquet files, of every type and compression that writers make of the same rows.

use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

/// Files that `tests/fixtures/parquet/make.py` has made: the same six rows in two row groups of
/// three.
const SAME_ROWS: [&str; 7] = [
    "utf8-snappy",
    "large-utf8-zstd",
    "utf8-view-gzip-page-v2",
    "dictionary-lz4",
    "binary-brotli",
    "utf8-delta-plain",
    "polars",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/parquet/{name}.parquet"))
}

fn source(path: PathBuf, config: ParquetConfig) -> SourceConfig {
    SourceConfig::new(path, SourceFormat::Parquet(config))
}

fn titled() -> ParquetConfig {
    ParquetConfig { title_column: Some("title".to_owned()), ..ParquetConfig::default() }
}

#[test]
fn every_type_and_compression_gives_the_same_documents() {
    let five = "five ".repeat(50);
    let expected = [
        (1, Some("10"), Some("One"), Some("one")),
        (2, Some("11"), None, Some("")),
        (3, Some("12"), None, None),
        (4, None, None, Some("four é😀")),
        (5, Some("14"), None, Some(&*five)),
        (6, Some("15"), Some("Six"), Some("six")),
    ];
    for name in SAME_ROWS {
        let mut sources =
            Sources::open(&[source(fixture(name), titled())], ReadPolicy::default()).unwrap();
        let items: Vec<Item> = sources.by_ref().collect::<Result<_, _>>().unwrap();
        assert_eq!(sources.bytes_read(), sources.total_bytes());
        let found: Vec<_> = items
            .iter()
            .map(|item| match item {
                Item::Document(Document { provenance, title, text }) => {
                    (provenance, title.as_deref(), Some(text.as_str()))
                }
                Item::NullText(provenance) => (provenance, None, None),
                other => panic!("{other:?}"),
            })
            .map(|(provenance, title, text)| {
                (provenance.line.unwrap(), provenance.id.as_deref(), title, text)
            })
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// A file of `rows_of_groups` rows, each of a text of `text_bytes` bytes and its number.
fn table(rows_of_groups: &[usize], text_bytes: usize) -> Vec<u8> {
    let schema = "message row { optional binary text (UTF8); required int64 id; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut numbers = 0..;
    for &rows in rows_of_groups {
        let ids: Vec<i64> = numbers.by_ref().take(rows).collect();
        // Every seventh text is null.
        let levels: Vec<i16> = ids.iter().map(|id| i16::from(id % 7 != 0)).collect();
        let texts: Vec<ByteArray> = ids
            .iter()
            .filter(|&id| id % 7 != 0)
            .map(|id| ByteArray::from(format!("{id:0text_bytes$}").as_str()))
            .collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn every_state_within_a_row_group_goes_on_with_the_rows_behind_it() {
    let input = Input::new(&[("a.parquet", &table(&[2_500, 0, 1, 3_000], 20))]);
    let config = [source(input.path("a.parquet"), ParquetConfig::default())];
    let mut whole = Sources::open(&config, ReadPolicy::default()).unwrap();
    let (mut states, mut items) = (Vec::new(), Vec::new());
    while let Some(block) = whole.next_block() {
        states.push((whole.state(), items.len()));
        items.extend(whole.accept(block.parse()).unwrap());
    }
    assert_eq!(items.len(), 5_501);
    assert!(states.len() > 6, "{}", states.len());
    for (item, number) in items.iter().zip(0..) {
        let (provenance, text) = match item {
            Item::Document(document) => (&document.provenance, Some(&document.text)),
            Item::NullText(provenance) => (provenance, None),
            other => panic!("{other:?}"),
        };
        assert_eq!(provenance.id, Some(number.to_string()));
        assert_eq!(text.cloned(), (number % 7 != 0).then(|| format!("{number:020}")));
    }
    for (state, num_before) in states {
        let mut sources = Sources::open(&config, ReadPolicy::default()).unwrap();
        sources.skip_to(&state);
        let rest: Vec<Item> = sources.collect::<Result<_, _>>().unwrap();
        assert!(rest == items[num_before..], "{state:?}");
    }
}

#[test]
fn long_rows_come_a_few_at_a_time() {
    let input = Input::new(&[("a.parquet", &table(&[200], 60_000))]);
    let config = [source(input.path("a.parquet"), ParquetConfig::default())];
    let mut sources = Sources::open(&config, ReadPolicy::default()).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = sources.next_block() {
        blocks.push(sources.accept(block.parse()).unwrap().len());
    }
    assert_eq!(blocks.iter().sum::<usize>(), 200);
    assert!(blocks.iter().all(|&rows| rows <= 24), "{blocks:?}");
}

#[test]
fn columns_that_are_absent_or_hold_no_text_are_refused_with_those_there_are() {
    let error = |config: ParquetConfig| {
        let sources = Sources::open(
            &[source(fixture("utf8-snappy"), config)],
            ReadPolicy { on_bad_line: OnBadLine::Skip, on_bad_file: OnBadFile::KeepPrefix },
        );
        let error = sources.unwrap().find_map(Result::err).unwrap().to_string();
        error.rsplit_once('/').unwrap().1.to_owned()
    };
    let with_text =
        |column: &str| ParquetConfig { text_column: column.to_owned(), ..ParquetConfig::default() };
    assert_eq!(
        error(with_text("content")),
        "utf8-snappy.parquet: column \"content\" is absent (columns present: url, id, nested, tags, text, title). \
         Set text_column in [source.parquet], or use --text-key"
    );
    assert!(error(with_text("id")).contains("column \"id\" is no text"));
    for nested in ["nested", "tags"] {
        assert!(error(with_text(nested)).contains("is absent"), "{nested}");
    }
    let titled = ParquetConfig { title_column: Some("heading".to_owned()), ..titled() };
    assert!(error(titled).contains("Set title_column in [source.parquet]"));
    let without_id = ParquetConfig { id_column: "key".to_owned(), ..ParquetConfig::default() };
    let sources = source(fixture("utf8-snappy"), without_id);
    assert_eq!(items(sources, OnBadLine::Fail).len(), 6);
}

/// A file of one text, `a`, and the identifier that `write` writes in a column of this type.
fn with_id<T: DataType>(id_type: &str, id: T::T) -> Vec<u8> {
    let schema = format!("message row {{ required binary text (UTF8); required {id_type}; }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&[ByteArray::from("a")], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(&[id], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn whole_numbers_identify_with_and_without_sign() {
    let id_of = |file: Vec<u8>| {
        let input = Input::new(&[("a.parquet", &file)]);
        let source = source(input.path("a.parquet"), ParquetConfig::default());
        match &items(source, OnBadLine::Fail)[..] {
            [Item::Document(document)] => document.provenance.id.clone().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(id_of(with_id::<Int32Type>("int32 id", -1)), "-1");
    assert_eq!(id_of(with_id::<Int32Type>("int32 id (INTEGER(32,true))", -1)), "-1");
    assert_eq!(id_of(with_id::<Int32Type>("int32 id (UINT_32)", -1)), "4294967295");
    assert_eq!(id_of(with_id::<Int32Type>("int32 id (INTEGER(32,false))", -1)), "4294967295");
    assert_eq!(id_of(with_id::<Int64Type>("int64 id", -1)), "-1");
    assert_eq!(id_of(with_id::<Int64Type>("int64 id (UINT_64)", -2)), "18446744073709551614");
}

#[test]
fn column_of_identifiers_of_another_type_is_refused_with_its_type() {
    let error_of = |file: Vec<u8>| {
        let input = Input::new(&[("a.parquet", &file)]);
        let source = source(input.path("a.parquet"), ParquetConfig::default());
        input.message(&open(source, OnBadLine::Skip).find_map(Result::err).unwrap())
    };
    assert_eq!(
        error_of(with_id::<DoubleType>("double id", 1.5)),
        "a.parquet: column \"id\" is of type DOUBLE, and identifiers are strings or whole numbers. \
         Set id_column in [source.parquet], to a name that no column has where none is to be read"
    );
    let error = error_of(with_id::<Int64Type>("int64 id (TIMESTAMP(MILLIS,true))", 1));
    assert!(error.contains("is of type INT64 (Timestamp), and"), "{error}");
    let nested = ParquetConfig { id_column: "nested".to_owned(), ..ParquetConfig::default() };
    let mut sources = open(source(fixture("utf8-snappy"), nested), OnBadLine::Fail);
    let error = sources.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("column \"nested\" is of type list or structure"), "{error}");
}

#[test]
fn text_that_is_no_utf8_is_one_bad_row() {
    let bytes = fs::read(fixture("utf8-delta-plain")).unwrap();
    let at = bytes.windows(4).position(|window| window == b"four").unwrap();
    let mut wrong = bytes.clone();
    wrong[at + 1] = 0xff;
    let input = Input::new(&[("a.parquet", &wrong)]);
    let read = |on_bad_line| open(source(input.path("a.parquet"), titled()), on_bad_line);
    let error = read(OnBadLine::Fail).find_map(Result::err).unwrap();
    let message = input.message(&error);
    assert!(
        message.starts_with("a.parquet:4: invalid UTF-8 (byte 1 of column \"text\"). Use"),
        "{message}"
    );
    let rejects =
        read(OnBadLine::Skip).filter(|item| matches!(item, Ok(Item::Rejected(_)))).count();
    assert_eq!((rejects, read(OnBadLine::Skip).count()), (1, 6));
    let repaired = read(OnBadLine::Replace).nth(3).unwrap().unwrap();
    let Item::Repaired(document, _) = repaired else { panic!("{repaired:?}") };
    assert_eq!(document.text, "f\u{fffd}ur é😀");
}

#[test]
fn fault_in_a_title_or_an_identifier_names_its_column() {
    for column in ["title", "id"] {
        let wrong = ByteArray::from(vec![b'a', 0xff]);
        let file = with_id::<ByteArrayType>(&format!("binary {column} (UTF8)"), wrong);
        let input = Input::new(&[("a.parquet", &file)]);
        let config = if column == "title" { titled() } else { ParquetConfig::default() };
        let source = || source(input.path("a.parquet"), config.clone());
        let error = open(source(), OnBadLine::Fail).find_map(Result::err).unwrap();
        let start = format!("a.parquet:1: invalid UTF-8 (byte 1 of column \"{column}\"). Use");
        assert!(input.message(&error).starts_with(&start), "{error}");
        let found = items(source(), OnBadLine::Skip);
        assert!(matches!(found[..], [Item::Rejected(_)]), "{found:?}");
        let found = items(source(), OnBadLine::Replace);
        let [Item::Repaired(document, _)] = &found[..] else { panic!("{found:?}") };
        let replaced = document.title.as_ref().or(document.provenance.id.as_ref());
        assert_eq!(replaced.map(String::as_str), Some("a\u{fffd}"));
    }
}

#[test]
fn cut_files_have_no_rows_and_damaged_ones_those_before_the_damage() {
    let keep = ReadPolicy { on_bad_line: OnBadLine::Fail, on_bad_file: OnBadFile::KeepPrefix };
    let kept = |bytes: &[u8]| {
        let input = Input::new(&[("a.parquet", bytes)]);
        let mut sources =
            Sources::open(&[source(input.path("a.parquet"), titled())], keep).unwrap();
        let items = sources.by_ref().filter(|item| item.is_ok()).count();
        let broken: Vec<_> = sources.broken().iter().map(|it| input.without_folder(it)).collect();
        (items, broken)
    };
    let bytes = fs::read(fixture("binary-brotli")).unwrap();
    for cut in [0, 3, 4, 11, bytes.len() * 9 / 10, bytes.len() - 1] {
        let (items, broken) = kept(&bytes[..cut]);
        assert_eq!((items, broken.len()), (0, 1), "{cut}");
        let start = format!(
            "a.parquet: breaks off at byte {cut}, in row 1, after 0 documents: its Parquet data"
        );
        assert!(broken[0].starts_with(&start), "{broken:?}");
    }
    // The last page of the texts of the second row group, which has a checksum.
    let reader =
        SerializedFileReader::new(fs::File::open(fixture("binary-brotli")).unwrap()).unwrap();
    let group = reader.metadata().row_group(1);
    let text = group.columns().iter().find(|it| it.column_path().string() == "text").unwrap();
    let (offset, length) = text.byte_range();
    let mut damaged = bytes.clone();
    damaged[(offset + length - 2) as usize] ^= 1;
    let (items, broken) = kept(&damaged);
    assert_eq!(items, 3);
    assert!(
        broken[0]
            .contains("in row 4, after 3 documents: its Parquet data are damaged (row group 2: "),
        "{broken:?}"
    );
}

#[test]
fn flipped_bit_ends_in_an_error_or_leaves_all_rows() {
    for (name, step) in SAME_ROWS.iter().zip(61..) {
        let bytes = fs::read(fixture(name)).unwrap();
        let input = Input::new(&[]);
        for at in (4..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(input.path("a.parquet"), flipped).unwrap();
            let source = source(input.path("a.parquet"), titled());
            let found: Result<Vec<Item>, _> =
                Sources::open(&[source], lines(OnBadLine::Replace)).unwrap().collect();
            match found {
                Ok(items) => assert_eq!(items.len(), 6, "{name}: bit of byte {at}"),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}
