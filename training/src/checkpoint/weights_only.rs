//! Checkpoints that hold a model and nothing to go on training it with: what other programs'
//! weights become.

use std::path::Path;

use corpus::{FileSummary, Observer, TokenizerIdentity, Unit};

use super::hugging_face::own_config;
use super::manifest::{Manifest, write_json};
use super::output_folder::{Existing, OutputFolder};
use super::tensor_file::{TensorFileWriter, TensorLayout};
use super::{HUGGING_FACE_CONFIG, MANIFEST, MODEL, STATE, named};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::parameters::ParameterSource;

/// Name of the tokenizer's file in a checkpoint.
pub(super) const TOKENIZER: &str = "tokenizer.json";

/// The files of such a folder, as its manifest tells them.
fn files_of(folder: &Path) -> Option<Vec<String>> {
    let manifest = Manifest::read(folder).ok().filter(|manifest| !manifest.has(STATE))?;
    let files = manifest.files.into_iter().map(|file| file.name);
    Some(files.chain([MANIFEST.to_owned()]).collect())
}

/// A model whose weights are elsewhere.
pub(super) struct WeightsOnly<'a> {
    /// Optimizer steps that it has behind it.
    pub(super) step: u64,
    /// The folder that they are read from.
    pub(super) from: &'a Path,
    pub(super) source: &'a dyn ParameterSource,
}

/// Writes the checkpoint folder `out`; `describe` puts the tokenizer's file into it, and says what
/// tokenizer and model are. No more than one tensor is held at a time.
pub(super) fn write(
    weights: &WeightsOnly<'_>,
    describe: impl FnOnce(&Path) -> Result<(TokenizerIdentity, Architecture), TrainError>,
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<Manifest, TrainError> {
    let output = OutputFolder::begin(out, weights.from, existing, files_of)?;
    let folder = output.path();
    // First, for it is here that most is wrong.
    let (tokenizer, architecture) = describe(folder)?;

    let specs = architecture.parameters();
    let layout = TensorLayout::new(named(&specs, ""));
    let path = folder.join(MODEL);
    layout.create(&path)?;
    observer.begin("weights", Some(layout.bytes()), Unit::Bytes);
    let file = TensorFileWriter::open(&layout, &path, 0, 1)?;
    for (index, spec) in specs.iter().enumerate() {
        if observer.stop_requested() {
            return Err(corpus::CorpusError::Stopped.into());
        }
        let bytes = file.write(index, spec, &weights.source.local(spec, 0, 1)?)?;
        observer.advance(bytes);
    }
    file.finish()?;
    observer.finish();

    write_json(&folder.join(HUGGING_FACE_CONFIG), &own_config(&architecture, &tokenizer))?;
    let files = [MODEL, HUGGING_FACE_CONFIG]
        .into_iter()
        .chain(tokenizer.file_name())
        .map(|name| FileSummary::of(&folder.join(name)))
        .collect::<Result<_, _>>()?;
    let manifest = Manifest {
        version: Manifest::VERSION,
        step: weights.step,
        model: architecture,
        tokenizer,
        data: None,
        init_from: None,
        files,
    };
    write_json(&folder.join(MANIFEST), &manifest)?;
    output.finish()?;
    Ok(manifest)
}
