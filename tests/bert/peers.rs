//! BERTs that go to Python's `transformers` and come from there: the same logits on both sides. See
//! `tests/transformers.rs` for what it needs.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use burn::tensor::{Int, Tensor, TensorData};
use corpus::Silent;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use training::architecture::Architecture;
use training::backend::{Cpu, VisibleKeys};
use training::checkpoint::{Checkpoint, Existing, HuggingFaceModel, export};
use training::model::bert::BertInputs;
use training::model::{Bert, ParameterSource};
use training::parallel::TensorParallelGroup;

use super::ARRANGEMENTS;
use super::runs::trained;
use crate::tensors::values;

/// What is asked of logits that two programs compute in `f32`.
const TOLERANCE: f32 = 1e-4;

/// Samples side by side.
struct Samples {
    tokens: Vec<i64>,
    types: Vec<i64>,
    mask: Vec<i64>,
    shape: [usize; 2],
}

impl Samples {
    /// Logits of both heads of a BERT; those of padding are 0.
    fn logits(&self, model: &Architecture, source: &dyn ParameterSource) -> [Vec<f32>; 2] {
        let (group, device) = (TensorParallelGroup::single(), Default::default());
        let model = Bert::<Cpu>::init(model.bert().unwrap(), source, &group, &device).unwrap();
        let tensor = |numbers: &[i64]| {
            Tensor::<Cpu, 2, Int>::from_data(TensorData::new(numbers.to_vec(), self.shape), &device)
        };
        let rows = self.mask.chunks_exact(self.shape[1]);
        let (masked_lm, order) = model.logits(BertInputs {
            tokens: tensor(&self.tokens),
            token_types: tensor(&self.types),
            visible: VisibleKeys::Padded(
                rows.map(|row| row.iter().sum::<i64>() as usize).collect(),
            ),
        });
        let mut masked_lm = values(masked_lm);
        let width = masked_lm.len() / self.mask.len();
        for (logits, _) in masked_lm.chunks_exact_mut(width).zip(&self.mask).filter(|it| *it.1 == 0)
        {
            logits.fill(0.0);
        }
        [masked_lm, values(order)]
    }
}

fn bytes_of<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| bytes(number)).collect()
}

/// Leaves samples and our logits for them in a file.
fn write_expected(path: &Path, samples: &Samples, [masked_lm, order]: &[Vec<f32>; 2]) {
    let [batch, seq] = samples.shape;
    let whole = [("tokens", &samples.tokens), ("types", &samples.types), ("mask", &samples.mask)]
        .map(|(name, numbers)| {
            (name, Dtype::I64, vec![batch, seq], bytes_of(numbers, i64::to_le_bytes))
        });
    let width = masked_lm.len() / (batch * seq);
    let floats =
        [("masked_lm", masked_lm, vec![batch, seq, width]), ("order", order, vec![batch, 2])].map(
            |(name, numbers, shape)| (name, Dtype::F32, shape, bytes_of(numbers, f32::to_le_bytes)),
        );
    let all: Vec<_> = whole.into_iter().chain(floats).collect();
    let views = all.iter().map(|(name, dtype, shape, bytes)| {
        (*name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    fs::write(path, serialize(views, None).unwrap()).unwrap();
}

/// Runs `peers/check_bert.py` with `words`, and returns what it found.
fn python(interpreter: &str, words: &[&Path]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/check_bert.py");
    let output = Command::new(interpreter).arg(script).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{messages}");
    said
}

#[test]
#[ignore = "needs Python with torch and transformers: tests/peers/run makes it and runs this"]
fn transformers_computes_what_this_program_does_of_a_bert_both_ways() {
    let interpreter = env::var("PEERS_PYTHON").expect("tests/peers/run sets it");

    // Out: trained models.
    for arrangement in ARRANGEMENTS {
        let (folder, path) = trained(arrangement);
        let checkpoint = Checkpoint::open(&path).unwrap();
        let exported = folder.path().join("exported");
        export(&checkpoint, &exported, Existing::Refuse, &Silent).unwrap();
        let lengths = [24, 9];
        let at = |place: i64| (place / 24, place % 24);
        let samples = Samples {
            tokens: (0..48).map(|place| place * 3_137 % 30_522).collect(),
            types: (0..48)
                .map(at)
                .map(|(row, at)| i64::from((5..lengths[row as usize]).contains(&at)))
                .collect(),
            mask: (0..48).map(at).map(|(row, at)| i64::from(at < lengths[row as usize])).collect(),
            shape: [2, 24],
        };
        let expected = folder.path().join("expected.safetensors");
        let logits = samples.logits(checkpoint.architecture(), &checkpoint);
        write_expected(&expected, &samples, &logits);
        println!("{}", python(&interpreter, &[Path::new("out"), &exported, &expected]));
    }

    // In: models that transformers writes.
    let made = tempfile::tempdir().unwrap();
    python(&interpreter, &[Path::new("in"), made.path()]);
    for name in ["post-norm", "pre-norm"] {
        let folder = made.path().join(name);
        let model = HuggingFaceModel::open(&folder).unwrap();
        let bytes = fs::read(folder.join("expected.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let whole = |name: &str| -> Vec<i64> {
            let words = file.tensor(name).unwrap().data().chunks_exact(8);
            words.map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
        };
        let samples = Samples {
            tokens: whole("tokens"),
            types: whole("types"),
            mask: whole("mask"),
            shape: [3, 32],
        };
        let found = samples.logits(model.architecture(), &model);
        for (what, ours) in ["masked_lm", "order"].into_iter().zip(found) {
            let theirs = file.tensor(what).unwrap().data().chunks_exact(4);
            let theirs = theirs.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
            assert_eq!(ours.len(), theirs.len());
            let differences = ours.iter().zip(theirs).map(|(ours, theirs)| (ours - theirs).abs());
            let largest = differences.fold(0.0, f32::max);
            assert!(largest < TOLERANCE, "{name}, {what}: {largest:e}");
            println!("{name}, {what}: a model that transformers wrote within {largest:.1e}");
        }
    }
}
