//! A checkpoint's model as a folder that `transformers` loads.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use corpus::tokenizer::{TokenizerFiles, open as open_tokenizer};
use corpus::{Observer, PendingFile, Unit};
use serde::Serialize;
use serde_json::json;
use tracing::warn;

use super::super::manifest::write_json;
use super::super::output_folder::{Existing, OutputFolder};
use super::super::tensor_file::{TensorFileWriter, TensorLayout};
use super::super::{Checkpoint, HUGGING_FACE_CONFIG, MODEL, named};
use super::bert::{separated, tensors_of};
use super::config::exported_config;
use crate::TrainError;
use crate::architecture::Architecture;
use crate::model::BertConfig;
use crate::parameters::{ParameterSource, ParameterSpec};

/// Bytes that are copied between two looks at an observer.
const BLOCK_BYTES: u64 = 1 << 23;

/// Says where generated text ends.
const GENERATION: &str = "generation_config.json";

/// Every name that a folder of this kind may hold.
const NAMES: [&str; 8] = [
    MODEL,
    HUGGING_FACE_CONFIG,
    GENERATION,
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
];

/// The files that an export may have left. It has no manifest of its own: what holds nothing else is
/// taken for one.
fn files_of(_: &Path) -> Option<Vec<String>> {
    Some(NAMES.map(str::to_owned).to_vec())
}

/// What an export came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// The folder.
    pub folder: PathBuf,
    /// The checkpoint's step.
    pub step: u64,
    /// Tokens of the vocabulary, without padding.
    pub vocab_size: usize,
    /// Parameters, the tied head counted once.
    pub parameters: u64,
    /// The files.
    pub files: Vec<String>,
}

/// Writes the model of `checkpoint` and its tokenizer to the folder `out`, in the form of Hugging
/// Face's `GPT2LMHeadModel`, `BertForPreTraining`, `MegatronBertForPreTraining`, or the
/// `…ForMultipleChoice` of both: the true vocabulary, and a tied head once.
///
/// # Errors
///
/// When `out` is there and not to be replaced or holds anything else, the tokenizer is not to be
/// found any more, a file cannot be written, or the observer asks to stop.
pub fn export(
    checkpoint: &Checkpoint,
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<ExportReport, TrainError> {
    let output = OutputFolder::begin(out, checkpoint.folder(), existing, files_of)?;
    let folder = output.path();
    let model = checkpoint.architecture();
    let identity = checkpoint.tokenizer()?;
    let mut files = vec![MODEL.to_owned(), HUGGING_FACE_CONFIG.to_owned()];
    match model {
        Architecture::Gpt2(_) => {
            copy(&checkpoint.folder().join(MODEL), &folder.join(MODEL), observer)?;
            let ends = json!({ "bos_token_id": identity.eod, "eos_token_id": identity.eod });
            write_json(&folder.join(GENERATION), &ends)?;
            files.push(GENERATION.to_owned());
        }
        Architecture::Bert(bert) | Architecture::BertChoice(bert) => {
            let specs = model.parameters();
            write_bert(checkpoint, (bert, &specs), &folder.join(MODEL), observer)?;
        }
    }
    write_json(&folder.join(HUGGING_FACE_CONFIG), &exported_config(model, &identity))?;

    let tokenizer = open_tokenizer(&identity.name)?;
    if tokenizer.fingerprint() != identity.fingerprint {
        warn!("{}: the tokenizer has changed since training", identity.name);
    }
    let TokenizerFiles { files: texts, is_gpt2, is_bert, end_of_document } =
        TokenizerFiles::of(&*tokenizer)?;
    for (name, text) in &texts {
        write_text(&folder.join(name), text)?;
        files.push((*name).to_owned());
    }
    let class = match (is_gpt2, is_bert) {
        (true, _) => "GPT2Tokenizer",
        (_, true) => "BertTokenizer",
        _ => "PreTrainedTokenizerFast",
    };
    let mut settings = json!({ "tokenizer_class": class, "model_max_length": model.seq_length() });
    match model {
        Architecture::Gpt2(_) => {
            settings["bos_token"] = end_of_document.clone().into();
            settings["eos_token"] = end_of_document.clone().into();
        }
        Architecture::Bert(_) | Architecture::BertChoice(_) => {
            for (name, token) in [
                ("cls_token", "[CLS]"),
                ("sep_token", "[SEP]"),
                ("mask_token", "[MASK]"),
                ("pad_token", "[PAD]"),
                ("unk_token", "[UNK]"),
            ] {
                settings[name] = token.into();
            }
            if is_bert {
                settings["do_lower_case"] = true.into();
            }
        }
    }
    if is_gpt2 {
        settings["unk_token"] = end_of_document.into();
        settings["add_prefix_space"] = false.into();
    }
    write_json(&folder.join("tokenizer_config.json"), &settings)?;
    files.push("tokenizer_config.json".to_owned());
    output.finish()?;
    let parameters = model.parameters().iter().map(|spec| spec.num_elements() as u64).sum();
    Ok(ExportReport {
        folder: out.to_owned(),
        step: checkpoint.step(),
        vocab_size: model.vocab_size(),
        parameters,
        files,
    })
}

/// Writes the parameters `specs` of a BERT as its class in `transformers` has them, one at a time.
fn write_bert(
    checkpoint: &Checkpoint,
    (model, specs): (&BertConfig, &[ParameterSpec]),
    path: &Path,
    observer: &dyn Observer,
) -> Result<(), TrainError> {
    let tensors: Vec<_> = specs.iter().flat_map(|spec| tensors_of(spec, model)).collect();
    let layout = TensorLayout::new(named(&tensors, ""));
    layout.create(path)?;
    observer.begin("export", Some(layout.bytes()), Unit::Bytes);
    let file = TensorFileWriter::open(&layout, path, 0, 1)?;
    let mut index = 0;
    for spec in specs {
        if observer.stop_requested() {
            return Err(corpus::CorpusError::Stopped.into());
        }
        let values = separated(spec, checkpoint.local(spec, 0, 1)?);
        let mut rest = &values[..];
        for tensor in tensors_of(spec, model) {
            let (own, others) = rest.split_at(tensor.num_elements());
            observer.advance(file.write(index, &tensor, own)?);
            rest = others;
            index += 1;
        }
    }
    file.finish()?;
    observer.finish();
    Ok(())
}

/// Copies a file and puts the copy on the disk.
fn copy(from: &Path, to: &Path, observer: &dyn Observer) -> Result<(), TrainError> {
    let mut file = File::open(from).map_err(|source| TrainError::io("open", from, source))?;
    let bytes = file.metadata().map_err(|source| TrainError::io("read", from, source))?.len();
    observer.begin("export", Some(bytes), Unit::Bytes);
    let mut copy = PendingFile::create(to)?;
    loop {
        if observer.stop_requested() {
            return Err(corpus::CorpusError::Stopped.into());
        }
        let mut copied = 0;
        copy.write(|writer| {
            copied = io::copy(&mut (&mut file).take(BLOCK_BYTES), writer)?;
            Ok(())
        })?;
        if copied == 0 {
            break;
        }
        observer.advance(copied);
    }
    copy.sync()?;
    copy.commit()?;
    observer.finish();
    Ok(())
}

fn write_text(path: &Path, text: &str) -> Result<(), TrainError> {
    let mut file = PendingFile::create(path)?;
    file.write(|file| file.write_all(text.as_bytes()))?;
    file.sync()?;
    Ok(file.commit()?)
}
