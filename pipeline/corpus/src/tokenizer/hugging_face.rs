//! Tokenizers as folders of Hugging Face hold them: `tokenizer.json`, for byte-level BPE the older
//! pair of `vocab.json` and `merges.txt`, and for WordPiece the older `vocab.txt`.
//!
//! The built-in vocabularies go out as the files of `gpt2` and `bert-base-uncased` that every other
//! program reads, and are known again when they come back, so that a shard and a model that went
//! around agree on their tokenizer.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Tokenizer, bert, gpt2};
use crate::CorpusError;

const TOKENIZER_JSON: &str = "tokenizer.json";
const VOCAB_JSON: &str = "vocab.json";
const MERGES_TXT: &str = "merges.txt";
const VOCAB_TXT: &str = "vocab.txt";
/// What else a folder says of its tokenizer.
const SETTINGS: &str = "tokenizer_config.json";
/// First line of `merges.txt`.
const MERGES_VERSION: &str = "#version: 0.2";

/// The files of a tokenizer, for a folder that other programs read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// Name and text of each: always a `tokenizer.json`, and of a byte-level BPE or a WordPiece the
    /// older ones.
    pub files: Vec<(&'static str, String)>,
    /// Whether it is GPT-2's own.
    pub is_gpt2: bool,
    /// Whether it is BERT's uncased one.
    pub is_bert: bool,
    /// The text of the token that ends a document.
    pub end_of_document: String,
}

/// What a folder says about its tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundTokenizer {
    /// It is GPT-2's, which this program has built in.
    Gpt2,
    /// It is BERT's uncased one, which this program has built in.
    Bert,
    /// The text of a `tokenizer.json`.
    Definition(String),
}

impl TokenizerFiles {
    /// The files of `tokenizer`.
    ///
    /// # Errors
    ///
    /// Where its definition does not read as JSON, or there is none.
    pub fn of(tokenizer: &dyn Tokenizer) -> Result<Self, CorpusError> {
        let end_of_document = tokenizer.decode(&[tokenizer.eod()]);
        if tokenizer.name() == gpt2::NAME {
            let Bpe { vocabulary, merges } = Bpe::gpt2();
            let files = vec![
                (TOKENIZER_JSON, definition(&vocabulary, &merges).to_string()),
                (VOCAB_JSON, Value::Object(vocabulary).to_string()),
                (MERGES_TXT, merges_text(&merges)),
            ];
            return Ok(Self { files, is_gpt2: true, is_bert: false, end_of_document });
        }
        if tokenizer.name() == bert::NAME {
            let definition = bert::definition(bert::VOCABULARY, true).to_string();
            let files =
                vec![(TOKENIZER_JSON, definition), (VOCAB_TXT, bert::VOCABULARY.to_owned())];
            return Ok(Self { files, is_gpt2: false, is_bert: true, end_of_document });
        }
        let text = tokenizer.definition().ok_or_else(|| CorpusError::Tokenizer {
            name: tokenizer.name().to_owned(),
            problem: "has no definition that could be written to a file".to_owned(),
        })?;
        let value: Value = parse(Path::new(tokenizer.name()), &text)?;
        let mut files = vec![(TOKENIZER_JSON, text.to_string())];
        if let Some(Bpe { vocabulary, merges }) = Bpe::of_definition(&value) {
            files.push((VOCAB_JSON, Value::Object(vocabulary).to_string()));
            files.push((MERGES_TXT, merges_text(&merges)));
        }
        files.extend(word_pieces(&value).map(|text| (VOCAB_TXT, text)));
        Ok(Self { files, is_gpt2: false, is_bert: false, end_of_document })
    }
}

/// The tokenizer in a folder of Hugging Face: its `tokenizer.json`, else its `vocab.json` and
/// `merges.txt`, else its `vocab.txt`. `None` where it holds none of them.
///
/// # Errors
///
/// Where a file cannot be read.
pub fn find_tokenizer(folder: &Path) -> Result<Option<FoundTokenizer>, CorpusError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(CorpusError::io("read", path));
    let path = folder.join(TOKENIZER_JSON);
    if path.is_file() {
        let text = read(&path)?;
        let value = parse(&path, &text)?;
        let is_gpt2 =
            Bpe::of_definition(&value).is_some_and(|bpe| bpe == Bpe::gpt2()) && is_plain(&value);
        let found = match is_gpt2 {
            true => FoundTokenizer::Gpt2,
            false if is_bert(&value) => FoundTokenizer::Bert,
            false => FoundTokenizer::Definition(text),
        };
        return Ok(Some(found));
    }
    let (vocabulary, merges) = (folder.join(VOCAB_JSON), folder.join(MERGES_TXT));
    if !vocabulary.is_file() || !merges.is_file() {
        return find_word_pieces(folder);
    }
    let Value::Object(vocabulary) = parse(&vocabulary, &read(&vocabulary)?)? else {
        let problem = "is no table of tokens and their numbers".to_owned();
        let name = vocabulary.display().to_string();
        return Err(CorpusError::Tokenizer { name, problem });
    };
    let merges: Vec<String> = read(&merges)?
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("#version"))
        .map(str::to_owned)
        .collect();
    let bpe = Bpe { vocabulary, merges };
    if bpe == Bpe::gpt2() {
        return Ok(Some(FoundTokenizer::Gpt2));
    }
    let text = definition(&bpe.vocabulary, &bpe.merges).to_string();
    Ok(Some(FoundTokenizer::Definition(text)))
}

/// The WordPiece tokenizer whose vocabulary is a `vocab.txt`.
fn find_word_pieces(folder: &Path) -> Result<Option<FoundTokenizer>, CorpusError> {
    let path = folder.join(VOCAB_TXT);
    if !path.is_file() {
        return Ok(None);
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(CorpusError::io("read", path));
    let text = read(&path)?;
    let settings = folder.join(SETTINGS);
    let settings =
        if settings.is_file() { parse(&settings, &read(&settings)?)? } else { Value::Null };
    let lower_case = settings["do_lower_case"] != false;
    if lower_case && text.lines().eq(bert::VOCABULARY.lines()) {
        return Ok(Some(FoundTokenizer::Bert));
    }
    Ok(Some(FoundTokenizer::Definition(bert::definition(&text, lower_case).to_string())))
}

/// Whether a definition is that of BERT's uncased tokenizer, whatever it adds around a text.
fn is_bert(value: &Value) -> bool {
    let own = bert::definition(bert::VOCABULARY, true);
    let is_same = |part: &str| value[part] == own[part];
    let normalizer = &value["normalizer"];
    let is_uncased = normalizer["type"] == "BertNormalizer"
        && ["clean_text", "handle_chinese_chars", "lowercase"].map(|key| &normalizer[key])
            == [&Value::Bool(true); 3]
        && normalizer["strip_accents"] != false;
    let names = |value: &Value| {
        let added = value["added_tokens"].as_array().into_iter().flatten();
        let mut names: Vec<_> =
            added.map(|it| (it["id"].as_u64(), it["content"].clone())).collect();
        names.sort_by_key(|&(id, _)| id);
        names
    };
    is_uncased && is_same("pre_tokenizer") && is_same("model") && names(value) == names(&own)
}

/// The `vocab.txt` of a WordPiece tokenizer whose tokens have the numbers from 0 on.
fn word_pieces(value: &Value) -> Option<String> {
    let model = &value["model"];
    if model["type"] != "WordPiece" {
        return None;
    }
    let mut tokens: Vec<(u64, &str)> = Vec::new();
    for (token, id) in model["vocab"].as_object()? {
        tokens.push((id.as_u64()?, token));
    }
    tokens.sort_unstable();
    let is_whole = tokens.iter().zip(0..).all(|(&(id, _), place)| id == place);
    is_whole.then(|| tokens.iter().map(|(_, token)| format!("{token}\n")).collect())
}

fn parse(path: &Path, text: &str) -> Result<Value, CorpusError> {
    serde_json::from_str(text).map_err(|source| CorpusError::Json { path: path.to_owned(), source })
}

/// A byte-level BPE: every token's number, the added ones among them, and the merges in order, their
/// parts with a space between.
#[derive(Debug)]
struct Bpe {
    vocabulary: Map<String, Value>,
    merges: Vec<String>,
}

impl PartialEq for Bpe {
    /// In whatever order the tokens stand; that of the merges counts.
    fn eq(&self, other: &Self) -> bool {
        let (ours, others) = (&self.vocabulary, &other.vocabulary);
        self.merges == other.merges
            && ours.len() == others.len()
            && ours.iter().all(|(token, id)| others.get(token) == Some(id))
    }
}

impl Bpe {
    fn gpt2() -> Self {
        let (tokens, merges) = gpt2::spelled();
        let vocabulary = tokens.into_iter().zip(0..).map(|(token, id)| (token, json!(id)));
        let merges = merges.into_iter().map(|(left, right)| format!("{left} {right}"));
        Self { vocabulary: vocabulary.collect(), merges: merges.collect() }
    }

    /// That of a `tokenizer.json`, where it is one.
    fn of_definition(value: &Value) -> Option<Self> {
        let model = &value["model"];
        if model["type"] != "BPE" || value["decoder"]["type"] != "ByteLevel" {
            return None;
        }
        let mut vocabulary = model["vocab"].as_object()?.clone();
        for token in value["added_tokens"].as_array().into_iter().flatten() {
            vocabulary.insert(token["content"].as_str()?.to_owned(), token["id"].clone());
        }
        // Newer files hold each merge as a pair, older ones as a text.
        let merge = |merge: &Value| match merge {
            Value::String(merge) => Some(merge.clone()),
            pair => Some(format!("{} {}", pair[0].as_str()?, pair[1].as_str()?)),
        };
        let merges = model["merges"].as_array()?.iter().map(merge).collect::<Option<_>>()?;
        Some(Self { vocabulary, merges })
    }
}

/// Whether a definition does nothing to a text beside cutting it into GPT-2's words and merging
/// their bytes.
fn is_plain(value: &Value) -> bool {
    let words = &value["pre_tokenizer"];
    let cuts = words["type"] == "ByteLevel"
        && words["add_prefix_space"] == false
        && words["use_regex"] != false;
    cuts && value["normalizer"].is_null() && value["model"]["dropout"].is_null()
}

/// A `tokenizer.json` of a byte-level BPE that cuts words as GPT-2 does.
fn definition(vocabulary: &Map<String, Value>, merges: &[String]) -> Value {
    let end = gpt2::END_OF_TEXT;
    let added: Vec<Value> = vocabulary
        .get(end)
        .map(|id| {
            json!({
                "id": id, "content": end, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": true, "special": true,
            })
        })
        .into_iter()
        .collect();
    let byte_level = |add_prefix_space: bool, trim_offsets: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": add_prefix_space,
            "trim_offsets": trim_offsets, "use_regex": true,
        })
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": byte_level(false, true),
        "post_processor": byte_level(true, false),
        "decoder": byte_level(true, true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": false,
            "byte_fallback": false,
            "vocab": vocabulary,
            "merges": merges,
        },
    })
}

fn merges_text(merges: &[String]) -> String {
    let mut text = format!("{MERGES_VERSION}\n");
    for merge in merges {
        text.push_str(merge);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{BertTokenizer, Gpt2Tokenizer, JsonTokenizer};

    fn written(files: &TokenizerFiles, names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files.files.iter().filter(|(name, _)| names.contains(name)) {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn gpt2_goes_out_as_three_files_and_is_known_again_from_either_form() {
        let files = TokenizerFiles::of(&Gpt2Tokenizer::new()).unwrap();
        assert!(files.is_gpt2 && files.end_of_document == "<|endoftext|>");
        for names in [&[TOKENIZER_JSON][..], &[VOCAB_JSON, MERGES_TXT]] {
            let folder = written(&files, names);
            assert_eq!(find_tokenizer(folder.path()).unwrap(), Some(FoundTokenizer::Gpt2));
        }
        let half = written(&files, &[VOCAB_JSON]);
        assert_eq!(find_tokenizer(half.path()).unwrap(), None);
    }

    #[test]
    fn written_definition_of_gpt2_gives_its_tokens() {
        let built_in = Gpt2Tokenizer::new();
        let files = TokenizerFiles::of(&built_in).unwrap();
        let folder = written(&files, &[TOKENIZER_JSON]);
        let read = JsonTokenizer::open(&folder.path().join(TOKENIZER_JSON)).unwrap();
        assert_eq!((read.vocab_size(), read.eod()), (50_257, 50_256));
        let text = "It's a test,\n\n with 1234 numbers… and  spaces \u{fc} 好.";
        let tokens = |tokenizer: &dyn Tokenizer| {
            let mut tokens = Vec::new();
            tokenizer.encode(text, &mut tokens).unwrap();
            tokens
        };
        assert_eq!(tokens(&read), tokens(&built_in));
    }

    #[test]
    fn bert_goes_out_as_two_files_and_is_known_again_from_either() {
        let files = TokenizerFiles::of(&BertTokenizer::new()).unwrap();
        assert!(files.is_bert && !files.is_gpt2 && files.end_of_document == "[SEP]");
        for name in [TOKENIZER_JSON, VOCAB_TXT] {
            let folder = written(&files, &[name]);
            assert_eq!(find_tokenizer(folder.path()).unwrap(), Some(FoundTokenizer::Bert));
        }
        // A cased model of the same form is another one.
        let cased = written(&files, &[VOCAB_TXT]);
        fs::write(cased.path().join(SETTINGS), "{\"do_lower_case\": false}").unwrap();
        let Some(FoundTokenizer::Definition(text)) = find_tokenizer(cased.path()).unwrap() else {
            panic!("another one");
        };
        let path = cased.path().join(TOKENIZER_JSON);
        fs::write(&path, &text).unwrap();
        assert_eq!(find_tokenizer(cased.path()).unwrap(), Some(FoundTokenizer::Definition(text)));
        let cased = JsonTokenizer::open(&path).unwrap();
        let mut tokens = Vec::new();
        cased.encode("Hello hello", &mut tokens).unwrap();
        assert_eq!(tokens, [100, 7592], "no capital is in this vocabulary");
        let again = TokenizerFiles::of(&cased).unwrap();
        assert_eq!(again.files[1], (VOCAB_TXT, bert::VOCABULARY.to_owned()));
        assert!(!again.is_bert);
    }

    #[test]
    fn another_vocabulary_stays_what_it_is() {
        let files = TokenizerFiles::of(&Gpt2Tokenizer::new()).unwrap();
        let folder = written(&files, &[VOCAB_JSON, MERGES_TXT]);
        let path = folder.path().join(MERGES_TXT);
        let merges = fs::read_to_string(&path).unwrap();
        let shorter: Vec<&str> = merges.lines().take(1000).collect();
        fs::write(&path, shorter.join("\n")).unwrap();
        let Some(FoundTokenizer::Definition(text)) = find_tokenizer(folder.path()).unwrap() else {
            panic!("another one");
        };
        let definition = folder.path().join(TOKENIZER_JSON);
        fs::write(&definition, &text).unwrap();
        let opened = JsonTokenizer::open(&definition).unwrap();
        assert_eq!(opened.decode(&[opened.eod()]), "<|endoftext|>");
        let again = TokenizerFiles::of(&opened).unwrap();
        assert!(!again.is_gpt2);
        assert_eq!(again.files[2].1.trim_end(), shorter.join("\n"));
    }
}
