use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;
use crate::{CorpusError, Silent};

/// A folder in RACE's form, made of files with their content.
struct Folder(TempDir);

impl Folder {
    /// Both levels of the split `test`, an article of one question each.
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for level in ["middle", "high"] {
            folder.write(&format!("test/{level}/1.txt"), &record(level, 1).to_string());
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self) -> Result<RaceSet, CorpusError> {
        RaceSet::read(self.0.path(), RaceSplit::Test, &RaceLevel::ALL, &Silent)
    }

    #[track_caller]
    fn refused(&self, parts: &[&str]) {
        let error = self.read().unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

fn record(level: &str, number: u64) -> Value {
    json!({
        "article": "The sun rises in the east.",
        "questions": ["The sun rises in the _."],
        "options": [["north", "east", "south", "west"]],
        "answers": ["B"],
        "id": format!("{level}{number}.txt"),
    })
}

#[test]
fn articles_come_level_by_level_in_the_order_of_their_numbers() {
    let folder = Folder::new();
    for number in [10, 2] {
        let text = record("high", number).to_string();
        folder.write(&format!("test/high/{number}.txt"), &text);
    }
    folder.write("test/high/._3.txt", "hidden");
    folder.write("test/high/notes.md", "no article");
    let set = folder.read().unwrap();
    let ids: Vec<&str> = set.articles.iter().map(|article| &*article.id).collect();
    assert_eq!(ids, ["middle1.txt", "high1.txt", "high2.txt", "high10.txt"]);
    assert_eq!((set.num_questions(), set.num_questions_of(RaceLevel::High)), (4, 3));
    assert_eq!(set.articles[0].questions[0].answer, 1);
    assert_eq!(set.articles[3].question_id(0), "high10.txt#0");
    let only = [RaceLevel::Middle];
    let middle = RaceSet::read(folder.0.path(), RaceSplit::Test, &only, &Silent).unwrap();
    assert_eq!(middle.articles, set.articles[..1]);
}

#[test]
fn a_file_may_hold_an_object_a_line_or_one_over_several() {
    let folder = Folder::new();
    let mut unnamed = record("high", 8);
    unnamed.as_object_mut().unwrap().remove("id");
    folder.write("test/high/7.txt", &format!("{}\n\n{unnamed}\n", record("high", 7)));
    let pretty = serde_json::to_string_pretty(&record("high", 9)).unwrap();
    folder.write("test/high/9.txt", &pretty);
    let set = folder.read().unwrap();
    let places: Vec<(&str, u64)> =
        set.articles[2..].iter().map(|article| (&*article.id, article.line)).collect();
    assert_eq!(places, [("high7.txt", 1), ("high7.txt:3", 3), ("high9.txt", 1)]);
}

#[test]
fn a_folder_that_lacks_something_is_told_with_what_is_there() {
    let folder = Folder::new();
    fs::remove_dir_all(folder.0.path().join("test/middle")).unwrap();
    folder.refused(&["test: no folder middle here (there are high)"]);
    fs::rename(folder.0.path().join("test"), folder.0.path().join("dev")).unwrap();
    folder.refused(&["no folder test here (there are dev); RACE has train, dev and test"]);
    let above = tempfile::tempdir().unwrap();
    fs::create_dir(above.path().join("RACE")).unwrap();
    let error = RaceSet::read(above.path(), RaceSplit::Dev, &RaceLevel::ALL, &Silent).unwrap_err();
    assert!(error.to_string().contains("RACE lies in "), "{error}");
    let empty = Folder::new();
    fs::remove_file(empty.0.path().join("test/high/1.txt")).unwrap();
    empty.refused(&["test/high: no *.txt in it"]);
    let nowhere = RaceSet::read(Path::new("nowhere"), RaceSplit::Dev, &RaceLevel::ALL, &Silent);
    assert!(matches!(nowhere, Err(CorpusError::Io { .. })), "{nowhere:?}");
}

#[test]
fn bad_questions_are_refused_with_file_and_line() {
    let changed = |change: fn(&mut Value)| {
        let folder = Folder::new();
        let mut bad = record("high", 2);
        change(&mut bad);
        folder.write("test/high/2.txt", &format!("{}\n{bad}\n", record("high", 3)));
        folder
    };
    changed(|it| it["options"][0] = json!(["north", "east", "south"]))
        .refused(&["high/2.txt:2: question 0 has 3 options; it needs 4"]);
    changed(|it| it["options"][0] = json!(["a", "b", "c", "d", "e"])).refused(&["has 5 options"]);
    for answer in ["E", "b", "", "AB"] {
        let folder = Folder::new();
        let mut bad = record("high", 2);
        bad["answers"] = json!([answer]);
        folder.write("test/high/2.txt", &bad.to_string());
        let told = format!("is {answer:?}; A, B, C or D is needed");
        folder.refused(&["high/2.txt:1: ", &told]);
    }
    changed(|it| it["answers"] = json!(["A", "B"]))
        .refused(&["high/2.txt:2: 1 questions, 1 lists of options and 2 answers"]);
    changed(|it| {
        for key in ["questions", "options", "answers"] {
            it[key] = json!([]);
        }
    })
    .refused(&["0 questions"]);
    changed(|it| drop(it.as_object_mut().unwrap().remove("article")))
        .refused(&["high/2.txt:2: missing field `article`", "article, questions, options"]);
    changed(|it| it["id"] = json!("high1.txt"))
        .refused(&["high/2.txt:2: the id \"high1.txt\" is that of ", "high/1.txt:1 too"]);
    let broken = Folder::new();
    broken.write("test/high/1.txt", "{\"article\": \"half");
    broken.refused(&["high/1.txt:1: ", "a JSON object with article"]);
    broken.write("test/high/1.txt", " \n");
    broken.refused(&["high/1.txt: it is empty"]);
    fs::write(broken.0.path().join("test/high/1.txt"), b"{}\n\xff").unwrap();
    broken.refused(&["high/1.txt:2: no UTF-8 at byte 3"]);
}

#[test]
fn every_blank_is_replaced_and_what_has_none_is_followed_by_the_option() {
    let options = ["a", "b_", "", "d"].map(str::to_owned);
    let question =
        |text: &str| RaceQuestion { text: text.to_owned(), options: options.clone(), answer: 0 };
    assert_eq!(question("x _ y _.").answered(), ["x a y a.", "x b_ y b_.", "x  y .", "x d y d."]);
    assert_eq!(question("__").answered(), ["aa", "b_b_", "", "dd"]);
    assert_eq!(question("why?").answered(), ["why? a", "why? b_", "why? ", "why? d"]);
    assert_eq!(question("").answered()[0], " a");
}

#[test]
fn rows_keep_the_question_and_lose_the_end_of_the_article() {
    let rows = RaceRows { cls: 1, sep: 2, seq_length: 10, max_question_tokens: 4 };
    let row = rows.row(&[5, 6], &[7, 8]);
    assert_eq!((&row.tokens[..], row.first_segment), (&[1, 5, 6, 2, 7, 8, 2][..], 4));
    let row = rows.row(&[5; 9], &[7; 9]);
    assert_eq!(row.tokens, [1, 5, 5, 5, 5, 2, 7, 7, 7, 2]);
    assert_eq!((row.first_segment, row.article_tokens_cut), (6, 6));
    assert_eq!(row.question_tokens_cut, 5);
    // A row that is just full loses nothing.
    let full = rows.row(&[5; 4], &[7; 3]);
    assert_eq!((full.question_tokens_cut, full.article_tokens_cut), (0, 0));
    let vocabulary = crate::tokenizer::open("bert").unwrap().masked_vocabulary().unwrap();
    let paper = RaceRows::new(&vocabulary, 512);
    assert_eq!((paper.cls, paper.sep, paper.max_question_tokens), (101, 102, 128));
    assert_eq!(paper.row(&[9; 300], &[7; 900]).tokens.len(), 512);
    for seq_length in [4, 5, 40] {
        let row = RaceRows::new(&vocabulary, seq_length).row(&[9; 300], &[7; 900]);
        assert_eq!(row.tokens.len(), seq_length);
    }
}

/// The reference's own rows: made by the original's rules of texts that lie beside the project, by a
/// tokenizer whose tokens are lower-cased words and whose ids are of their hashes.
#[test]
fn rows_are_those_of_the_original() {
    let expected: Value =
        serde_json::from_str(include_str!("../../../../tests/fixtures/race/rows.json")).unwrap();
    for pair in expected["clean_text"].as_array().unwrap() {
        assert_eq!(clean_text(pair[0].as_str().unwrap()), pair[1].as_str().unwrap());
    }
    let race =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/race/sample"));
    if !race.is_dir() {
        eprintln!("skipped: no {}", race.display());
        return;
    }
    let set = RaceSet::read(&race, RaceSplit::Dev, &RaceLevel::ALL, &Silent).unwrap();
    let samples = expected["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 44);
    for sample in samples {
        let file = race.join(sample["file"].as_str().unwrap());
        let article = set.articles.iter().find(|article| article.file == file).unwrap();
        let question = &article.questions[sample["q"].as_u64().unwrap() as usize];
        assert_eq!(question.answer as u64, sample["label"].as_u64().unwrap());
        let rows = RaceRows {
            cls: 101,
            sep: 102,
            seq_length: sample["seq"].as_u64().unwrap() as usize,
            max_question_tokens: sample["max_qa"].as_u64().unwrap() as usize,
        };
        let encoded = ids_of_words(&clean_text(&article.text));
        for (answered, expected) in
            question.answered().iter().zip(sample["choices"].as_array().unwrap())
        {
            let row = rows.row(&ids_of_words(&clean_text(answered)), &encoded);
            assert_eq!(row.first_segment as u64 - 2, expected["qa_len"].as_u64().unwrap());
            assert_eq!(row.tokens.len() as u64, expected["n_real"].as_u64().unwrap());
            assert_eq!(hash(&row, rows.seq_length), expected["sha"].as_str().unwrap());
        }
    }
}

/// The reference's tokenizer.
fn ids_of_words(text: &str) -> Vec<u32> {
    let id = |word: &str| {
        let hash = u128::from_be_bytes(md5::compute(word).0);
        (hash % 20_000) as u32 + 1000
    };
    text.to_lowercase().split_whitespace().map(id).collect()
}

/// The reference's hash of a row: of its ids, segments and mask, each padded with 0.
fn hash(row: &RaceRow, seq_length: usize) -> String {
    let is_second = |at: &usize| i32::from(*at >= row.first_segment);
    let real = row.tokens.len();
    let ids = row.tokens.iter().map(|&id| id as i32).collect::<Vec<_>>();
    let segments = (0..real).map(|at| is_second(&at)).collect::<Vec<_>>();
    let mut hash = Sha256::new();
    for mut numbers in [ids, segments, vec![1; real]] {
        numbers.resize(seq_length, 0);
        numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
