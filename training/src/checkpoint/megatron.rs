//! Checkpoints cut into one file for each tensor-parallel rank, as Megatron-LM and the stacks that
//! descend from it hold them, and back.
//!
//! ```text
//! OUT/latest_checkpointed_iteration.txt     the step
//! OUT/megatron.json                         model, tokenizer, layout, hashes; written last
//! OUT/iter_0000400/mp_rank_00/model.safetensors
//! OUT/iter_0000400/mp_rank_01/model.safetensors
//! ```
//!
//! The checkpoints of this program need none of it: any number of ranks reads them as they are. The
//! names are those of Megatron-LM 1.0 (`language_model.transformer.layers.0.…`), which later
//! versions read too; weights of linear layers are transposed to `[d_output, d_input]`, the
//! vocabulary is padded to 128 rows for each rank, and the rows of queries, keys and values stand in
//! the order of the checkpoint version that is asked for. Numbers are moved, never computed with: a
//! checkpoint that goes out and comes back has the same bits. Only the model goes out, not the
//! optimizer.
//!
//! Source: Megatron-LM, `tools/checkpoint_util.py` and `megatron/checkpointing.py`
//! (`fix_query_key_value_ordering`).

use std::fs;
use std::path::{Path, PathBuf};

use corpus::{FileSummary, Observer, PendingFile, TokenizerIdentity, Unit, sync_folder};
use serde::{Deserialize, Serialize};

use super::linear_weight::{is_linear_weight, transposed};
use super::manifest::{read_json, verify, write_json};
use super::output_folder::{Existing, OutputFolder};
use super::tensor_file::TensorLayout;
use super::tensor_map::TensorMap;
use super::weights_only::{self, WeightsOnly};
use super::{Checkpoint, Manifest};
use crate::TrainError;
use crate::architecture::Architecture;
use crate::checkpoint::CheckpointError;
use crate::parameters::{ParameterSource, ParameterSpec, Split, padded_vocab_size};

const DESCRIPTION: &str = "megatron.json";
const TRACKER: &str = "latest_checkpointed_iteration.txt";
const RANK_FILE: &str = "model.safetensors";

/// The order of the rows of queries, keys and values in one rank's weight, by the versions that
/// Megatron-LM's checkpoints have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum QkvOrder {
    /// Version 0: all queries, all keys, all values; the order of Hugging Face.
    #[serde(rename = "0")]
    Version0,
    /// Version 1.0: head by head, within it place by place, each with query, key and value.
    #[serde(rename = "1.0")]
    Version1,
    /// Version 2.0 and later: head by head, each with its queries, keys and values.
    #[default]
    #[serde(rename = "2.0")]
    Version2,
}

impl QkvOrder {
    /// Where each row stands among those of version 0, for `heads` heads of `width` places.
    #[must_use]
    pub fn rows(self, heads: usize, width: usize) -> Vec<usize> {
        let row = |kind: usize, head: usize, place: usize| (kind * heads + head) * width + place;
        let mut rows = Vec::with_capacity(3 * heads * width);
        match self {
            Self::Version0 => rows.extend(0..3 * heads * width),
            Self::Version1 => rows.extend((0..heads).flat_map(|head| {
                (0..width).flat_map(move |place| (0..3).map(move |kind| row(kind, head, place)))
            })),
            Self::Version2 => rows.extend((0..heads).flat_map(|head| {
                (0..3).flat_map(move |kind| (0..width).map(move |place| row(kind, head, place)))
            })),
        }
        rows
    }
}

/// `megatron.json`: what the files of the ranks are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MegatronDescription {
    /// Version of this file's form.
    pub version: u32,
    /// Optimizer steps that the model has behind it.
    pub step: u64,
    /// The model and its sizes.
    pub model: Architecture,
    /// The vocabulary that it was trained on.
    pub tokenizer: TokenizerIdentity,
    /// How many files there are.
    pub tensor_parallel_size: usize,
    /// Rows of the vocabulary with padding.
    pub padded_vocab_size: usize,
    /// The order of queries, keys and values.
    pub checkpoint_version: QkvOrder,
    /// Size and hash of each rank's file, by its name from this folder on.
    pub files: Vec<FileSummary>,
}

impl MegatronDescription {
    const VERSION: u32 = 1;

    /// Reads the description in `folder`, and looks at whether it can be one.
    fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join(DESCRIPTION);
        let description: Self = read_json(&path)?;
        if description.version != Self::VERSION {
            return Err(CheckpointError::CheckpointFile {
                path,
                what: "version",
                expected: Self::VERSION.to_string(),
                found: description.version.to_string(),
            }
            .into());
        }
        description.model.check_tensor_parallel(description.tensor_parallel_size)?;
        description.check_files(&path)?;
        Ok(description)
    }

    /// The folder of a rank, from the folder of this file on.
    fn rank_folder(&self, rank: usize) -> String {
        format!("iter_{:07}/mp_rank_{rank:02}", self.step)
    }

    /// The file of a rank, from the folder of this file on.
    fn rank_file(&self, rank: usize) -> String {
        format!("{}/{RANK_FILE}", self.rank_folder(rank))
    }

    /// Demands that it lists the file of every rank once, and no other.
    fn check_files(&self, path: &Path) -> Result<(), TrainError> {
        let mut listed: Vec<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        listed.sort_unstable();
        let mut expected: Vec<_> =
            (0..self.tensor_parallel_size).map(|rank| self.rank_file(rank)).collect();
        expected.sort_unstable();
        if listed == expected {
            return Ok(());
        }
        Err(CheckpointError::CheckpointFile {
            path: path.to_owned(),
            what: "files",
            expected: expected.join(", "),
            found: listed.join(", "),
        }
        .into())
    }
}

/// The files of a folder that [`reshard`] made, as its description tells them.
fn files_of(folder: &Path) -> Option<Vec<String>> {
    let description = MegatronDescription::read(folder).ok()?;
    let files = description.files.into_iter().map(|file| file.name);
    let others = [DESCRIPTION, TRACKER].into_iter().chain(description.tokenizer.file_name());
    Some(files.chain(others.map(str::to_owned)).collect())
}

/// Cuts the model of `checkpoint` into files for `size` tensor-parallel ranks, in the folder `out`.
/// One rank's part of one tensor is held at a time.
///
/// # Errors
///
/// When the model does not split so, `out` is there and not to be replaced, a file cannot be
/// written, or the observer asks to stop.
pub fn reshard(
    checkpoint: &Checkpoint,
    size: usize,
    checkpoint_version: QkvOrder,
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<MegatronDescription, TrainError> {
    let model = checkpoint.architecture();
    model.check_tensor_parallel(size)?;
    let step = checkpoint.step();
    let iteration = format!("iter_{step:07}");
    let output = OutputFolder::begin(out, checkpoint.folder(), existing, files_of)?;
    let folder = output.path();
    let tokenizer = checkpoint.tokenizer()?;
    let mut description = MegatronDescription {
        version: MegatronDescription::VERSION,
        step,
        model: model.clone(),
        tokenizer: tokenizer.kept_in(folder)?,
        tensor_parallel_size: size,
        padded_vocab_size: padded_vocab_size(model.vocab_size(), size),
        checkpoint_version,
        files: Vec::new(),
    };
    let form = MegatronForm::of(&description);
    let layouts: Vec<_> = (0..size).map(|rank| form.layout(rank)).collect();
    observer.begin("reshard", Some(layouts.iter().map(TensorLayout::bytes).sum()), Unit::Bytes);
    let mut files = Vec::new();
    for (rank, layout) in layouts.iter().enumerate() {
        let name = description.rank_file(rank);
        let path = folder.join(&name);
        let parent = folder.join(description.rank_folder(rank));
        fs::create_dir_all(&parent).map_err(|source| TrainError::io("create", &parent, source))?;
        let summary = form.write(checkpoint, rank, layout, &path, observer)?;
        files.push(FileSummary { name, ..summary });
    }
    description.files = files;
    sync_folder(Some(&folder.join(&iteration)))?;
    super::manifest::replace_file(&folder.join(TRACKER), step.to_string().as_bytes())?;
    write_json(&folder.join(DESCRIPTION), &description)?;
    output.finish()?;
    observer.finish();
    Ok(description)
}

/// Puts the files that [`reshard`] made together again, as the checkpoint folder `out`. It has no
/// state of training: a run can begin with it.
///
/// # Errors
///
/// When `from` is no such folder, a file is not the one that was written, `out` is there and not to
/// be replaced, a file cannot be written, or the observer asks to stop.
pub fn merge(
    from: &Path,
    out: &Path,
    existing: Existing,
    observer: &dyn Observer,
) -> Result<Manifest, TrainError> {
    let path = from.join(DESCRIPTION);
    if !path.is_file() {
        let found = "no megatron.json here, so no folder that `checkpoint reshard` made";
        return Err(CheckpointError::NoForeignModel { path: from.to_owned(), found }.into());
    }
    let description = MegatronDescription::read(from)?;
    verify(from, &description.files, observer)?;
    let source = RankFiles::open(from, &description)?;
    let weights = WeightsOnly { step: description.step, from, source: &source };
    let tokenizer = description.tokenizer.seen_from(from)?;
    let describe = |folder: &Path| Ok((tokenizer.kept_in(folder)?, description.model.clone()));
    weights_only::write(&weights, describe, out, existing, observer)
}

/// How a model's tensors look in the files of the ranks.
struct MegatronForm<'a> {
    description: &'a MegatronDescription,
    specs: Vec<ParameterSpec>,
    head_size: usize,
    heads_per_rank: usize,
}

impl<'a> MegatronForm<'a> {
    fn of(description: &'a MegatronDescription) -> Self {
        let layers = description.model.layers();
        Self {
            description,
            specs: description.model.parameters(),
            head_size: layers.head_size(),
            heads_per_rank: layers.num_attention_heads / description.tensor_parallel_size,
        }
    }

    /// Where each tensor of a rank's file lies.
    fn layout(&self, rank: usize) -> TensorLayout {
        let tensors: Vec<_> =
            self.specs.iter().map(|spec| (megatron_name(spec), self.shape(spec, rank))).collect();
        TensorLayout::new(tensors.iter().map(|(name, shape)| (name.clone(), shape.as_slice())))
    }

    /// The shape that a rank's part has in a file.
    fn shape(&self, spec: &ParameterSpec, rank: usize) -> Vec<usize> {
        let mut shape = spec.local_shape(rank, self.description.tensor_parallel_size);
        if is_linear_weight(spec) {
            shape.reverse();
        }
        shape
    }

    fn write(
        &self,
        source: &dyn ParameterSource,
        rank: usize,
        layout: &TensorLayout,
        path: &Path,
        observer: &dyn Observer,
    ) -> Result<FileSummary, TrainError> {
        let size = self.description.tensor_parallel_size;
        let mut file = PendingFile::create(path)?;
        file.write(|file| file.write_all(layout.header()))?;
        for spec in &self.specs {
            if observer.stop_requested() {
                return Err(corpus::CorpusError::Stopped.into());
            }
            let values = self.to_file(spec, rank, source.local(spec, rank, size)?);
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            file.write(|file| file.write_all(&bytes))?;
            observer.advance(bytes.len() as u64);
        }
        let summary = file.sync()?;
        file.commit()?;
        Ok(summary)
    }

    /// A rank's part of a parameter as its file has it.
    fn to_file(&self, spec: &ParameterSpec, rank: usize, mut values: Vec<f32>) -> Vec<f32> {
        let local = spec.local_shape(rank, self.description.tensor_parallel_size);
        if is_linear_weight(spec) {
            values = transposed(&values, local[0], local[1]);
        }
        match self.row_order(spec) {
            Some((rows, width)) => rows
                .iter()
                .flat_map(|&row| &values[row * width..(row + 1) * width])
                .copied()
                .collect(),
            None => values,
        }
    }

    /// A rank's part of a parameter from what its file has: the inverse of
    /// [`to_file`](Self::to_file).
    fn restored(&self, spec: &ParameterSpec, rank: usize, mut values: Vec<f32>) -> Vec<f32> {
        if let Some((rows, width)) = self.row_order(spec) {
            let mut ordered = vec![0.0; values.len()];
            for (&row, from) in rows.iter().zip(values.chunks_exact(width)) {
                ordered[row * width..(row + 1) * width].copy_from_slice(from);
            }
            values = ordered;
        }
        let local = spec.local_shape(rank, self.description.tensor_parallel_size);
        if is_linear_weight(spec) { transposed(&values, local[1], local[0]) } else { values }
    }

    /// Of the weight and the bias of queries, keys and values: the order of the rows, and how many
    /// numbers each has.
    fn row_order(&self, spec: &ParameterSpec) -> Option<(Vec<usize>, usize)> {
        let Split::Dim { blocks: 3, .. } = spec.split else { return None };
        let rows = self.description.checkpoint_version.rows(self.heads_per_rank, self.head_size);
        Some((rows, if is_linear_weight(spec) { spec.shape[0] } else { 1 }))
    }
}

/// The name in the files of Megatron-LM 1.0.
fn megatron_name(spec: &ParameterSpec) -> String {
    // BERT's heads stand beside the language model, except for the pooler.
    let group = match spec.path.split('.').next() {
        Some("lm_head" | "binary_head") => "",
        Some("classifier") => return spec.path.replace("classifier", "multichoice_head"),
        Some("embedding" | "pooler") => "language_model.",
        _ => "language_model.transformer.",
    };
    format!("{group}{}", spec.path)
}

/// The files of all ranks as one source of parameters.
struct RankFiles<'a> {
    form: MegatronForm<'a>,
    ranks: Vec<TensorMap>,
}

impl<'a> RankFiles<'a> {
    fn open(folder: &Path, description: &'a MegatronDescription) -> Result<Self, TrainError> {
        let form = MegatronForm::of(description);
        let open = |rank: usize| -> Result<TensorMap, TrainError> {
            let path: PathBuf = folder.join(description.rank_file(rank));
            let map = TensorMap::open(&path)?;
            let shapes: Vec<_> = form
                .specs
                .iter()
                .map(|spec| (megatron_name(spec), form.shape(spec, rank)))
                .collect();
            let expected: Vec<_> =
                shapes.iter().map(|(name, shape)| (name.clone(), shape.as_slice())).collect();
            map.check(&expected)?;
            Ok(map)
        };
        let ranks = (0..description.tensor_parallel_size).map(open).collect::<Result<_, _>>()?;
        Ok(Self { form, ranks })
    }

    /// The whole parameter, its padding left out.
    fn whole(&self, spec: &ParameterSpec) -> Result<Vec<f32>, TrainError> {
        let size = self.ranks.len();
        let mut whole = vec![0.0; spec.num_elements()];
        for (rank, map) in self.ranks.iter().enumerate() {
            let values = map.whole(&megatron_name(spec), &self.form.shape(spec, rank))?;
            let local = self.form.restored(spec, rank, values);
            for run in spec.local_runs(rank, size) {
                whole[run.logical_range()].copy_from_slice(&local[run.local_range()]);
            }
        }
        Ok(whole)
    }
}

impl ParameterSource for RankFiles<'_> {
    fn local(
        &self,
        spec: &ParameterSpec,
        rank: usize,
        size: usize,
    ) -> Result<Vec<f32>, TrainError> {
        Ok(spec.slice(&self.whole(spec)?, rank, size))
    }
}
