//! Evaluation of folders in Hugging Face's form, as they are.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use corpus::Silent;
use corpus::tokenizer::{Gpt2Tokenizer, TokenizerFiles};
use evaluation::lambada::Lambada;
use evaluation::{
    CheckpointKind, EvalError, EvalPlan, EvalReport, Items, PartialScores, Protocol, Task, evaluate,
};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize_to_file};
use serde_json::{Value, json};
use tempfile::TempDir;
use training::model::Gpt2Config;
use training::parameters::{KeyedInit, ParameterSource};

use super::checkpoint::total_nll;
use super::{evaluated, made_text, measured, narrow_gpt2, plan, positive, run_on_text, task};

/// Shape and numbers of each tensor.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A folder as `transformers` writes one, with the made text as a test file beside.
struct Folder(TempDir);

impl Folder {
    /// The narrow model with weights of seed 5, changed by `change`.
    fn new(change: impl FnOnce(&mut Tensors)) -> Self {
        let (folder, model) = (Self(tempfile::tempdir().unwrap()), narrow_gpt2(24));
        let specs = model.parameters();
        let tensor = |spec: &training::parameters::ParameterSpec| {
            let numbers = KeyedInit { seed: 5 }.local(spec, 0, 1).unwrap();
            // Without the rows that pad the vocabulary.
            let length = spec.shape.iter().product();
            (spec.name.clone(), (spec.shape.clone(), numbers[..length].to_vec()))
        };
        let mut tensors: Tensors = specs.iter().map(tensor).collect();
        change(&mut tensors);
        let bytes: BTreeMap<&String, Vec<u8>> = tensors
            .iter()
            .map(|(name, (_, numbers))| {
                (name, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
            })
            .collect();
        let views = tensors.iter().map(|(name, (shape, _))| {
            (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), &bytes[name]).unwrap())
        });
        serialize_to_file(views, None, &folder.path("model/model.safetensors"))
            .unwrap_or_else(|_| panic!("{}", folder.0.path().display()));
        let rows = tensors["transformer.wte.weight"].0[0];
        folder.write("model/config.json", config_of(&model, rows).to_string());
        folder.write("test.tokens", made_text());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn plan(&self) -> EvalPlan {
        let tasks = vec![task(self.path("test.tokens"))];
        EvalPlan { checkpoint: self.path("model"), tasks, ..plan(8, 1) }
    }

    fn report(&self) -> EvalReport {
        evaluate(&self.plan(), &Silent).unwrap()
    }

    #[track_caller]
    fn refused(&self, part: &str) {
        let error = evaluate(&self.plan(), &Silent).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

fn config_of(model: &Gpt2Config, rows: usize) -> Value {
    json!({
        "model_type": "gpt2", "vocab_size": rows, "n_positions": model.seq_length,
        "n_embd": model.hidden_size, "n_layer": model.num_layers,
        "n_head": model.num_attention_heads, "activation_function": "gelu",
        "layer_norm_epsilon": model.layer_norm_epsilon, "eos_token_id": 50_256,
    })
}

/// The total of the same weights, handed over in memory.
fn expected_total() -> f64 {
    let mut model = evaluated(&narrow_gpt2(24), KeyedInit { seed: 5 }, 1);
    let result = run_on_text(made_text(), &mut model, &plan(8, 1)).unwrap();
    measured(&result).metrics.total_nll
}

#[test]
fn a_folder_is_evaluated_as_it_is_and_named_for_what_it_is() {
    let folder = Folder::new(|_| {});
    let report = folder.report();
    assert_eq!(total_nll(&report), expected_total());
    let settings = &measured(&report.results[0]).settings.scoring;
    assert_eq!(settings.checkpoint_kind, CheckpointKind::HuggingFace);
    assert_eq!((settings.checkpoint_step, &*settings.tokenizer), (None, "gpt2"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["results"][0]["settings"]["checkpoint_kind"], "hugging_face");
    assert_eq!(json["results"][0]["settings"]["checkpoint_step"], Value::Null);
    let summary = folder.plan().summary(&Silent).unwrap();
    assert_eq!((summary.checkpoint_kind, summary.step), (CheckpointKind::HuggingFace, None));

    // Two ranks, two copies, and from what a stopped evaluation has left: the same number.
    let split = EvalPlan {
        tensor_parallel_size: positive(2),
        data_parallel_size: positive(2),
        partial_scores: PartialScores::Folder(folder.0.path().to_owned()),
        ..folder.plan()
    };
    super::assert_close(total_nll(&evaluate(&split, &Silent).unwrap()), expected_total(), 1e-6);
}

#[test]
fn the_tokenizers_files_are_found_in_both_forms() {
    let folder = Folder::new(|_| {});
    let files = TokenizerFiles::of(&Gpt2Tokenizer::new()).unwrap().files;
    for names in [&["tokenizer.json"][..], &["vocab.json", "merges.txt"]] {
        for (name, text) in &files {
            let path = folder.path(&format!("model/{name}"));
            let _ = fs::remove_file(&path);
            if names.contains(name) {
                fs::write(path, text).unwrap();
            }
        }
        let report = folder.report();
        assert_eq!(total_nll(&report), expected_total());
        assert_eq!(measured(&report.results[0]).settings.scoring.tokenizer, "gpt2");
    }
    // One that is not GPT-2's: without its last merge, the text has more tokens.
    let merges = &files.iter().find(|(name, _)| *name == "merges.txt").unwrap().1;
    let fewer: Vec<&str> = merges.lines().take(1_000).collect();
    folder.write("model/merges.txt", fewer.join("\n"));
    let report = folder.report();
    let measured = measured(&report.results[0]);
    assert!(measured.settings.scoring.tokenizer.ends_with("tokenizer.json"), "{measured:?}");
    let mut gpt2 = evaluated(&narrow_gpt2(24), KeyedInit { seed: 5 }, 1);
    let with_all = run_on_text(made_text(), &mut gpt2, &plan(8, 1)).unwrap();
    assert!(measured.counts.tokens > super::measured(&with_all).counts.tokens);
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let table = "transformer.wte.weight";
    Folder::new(|tensors| drop(tensors.remove("transformer.h.0.mlp.c_fc.bias")))
        .refused("tensor transformer.h.0.mlp.c_fc.bias is missing");
    Folder::new(|tensors| {
        let extra = tensors["transformer.ln_f.bias"].clone();
        tensors.insert("transformer.h.0.ln_3.bias".to_owned(), extra);
    })
    .refused("tensor transformer.h.0.ln_3.bias is none of the model's");
    // All of them, in one message.
    Folder::new(|tensors| {
        for name in ["transformer.h.0.ln_1.bias", "transformer.h.0.ln_2.bias"] {
            tensors.remove(name);
        }
        let extra = tensors["transformer.ln_f.bias"].clone();
        tensors.insert("transformer.h.0.ln_3.bias".to_owned(), extra);
        tensors.insert("transformer.ln_f.weight".to_owned(), (vec![2], vec![1.0; 2]));
    })
    .refused(
        "tensor transformer.h.0.ln_1.bias is missing; tensor transformer.h.0.ln_2.bias is missing; \
         tensor transformer.ln_f.weight has shape [2], the model needs [8]; \
         tensor transformer.h.0.ln_3.bias is none of the model's",
    );
    Folder::new(|tensors| {
        tensors.retain(|name, _| name == table);
    })
    .refused("more tensors that differ");
    Folder::new(|tensors| {
        let mut head = tensors[table].clone();
        head.1[3] += 1.0;
        tensors.insert("lm_head.weight".to_owned(), head);
    })
    .refused("lm_head.weight is not wte.weight");
    // What holds no weights, and the tied head once more, is no fault.
    let harmless = Folder::new(|tensors| {
        let head = tensors[table].clone();
        tensors.insert("lm_head.weight".to_owned(), head);
        tensors.insert("transformer.h.0.attn.bias".to_owned(), (vec![1, 1], vec![1.0]));
        tensors.insert("transformer.h.0.attn.masked_bias".to_owned(), (vec![1], vec![-1e4]));
    });
    assert_eq!(total_nll(&harmless.report()), expected_total());
}

#[test]
fn a_dry_run_refuses_what_the_run_would() {
    let folder = Folder::new(|_| {});
    let plan = EvalPlan { overlap: positive(25), ..folder.plan() };
    for error in [plan.summary(&Silent).unwrap_err(), evaluate(&plan, &Silent).unwrap_err()] {
        assert!(error.to_string().contains("exceeds the model's seq_length"), "{error}");
    }
    let plan = EvalPlan { data_parallel_size: positive(1 << 40), ..folder.plan() };
    for error in [plan.summary(&Silent).unwrap_err(), evaluate(&plan, &Silent).unwrap_err()] {
        assert!(matches!(error, EvalError::Memory { .. }), "{error}");
    }
}

/// No tensor has a shape by which another number of heads would be found out.
#[test]
fn a_configuration_without_the_number_of_heads_is_refused() {
    let folder = Folder::new(|_| {});
    let config = folder.path("model/config.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("n_head");
    fs::write(&config, value.to_string()).unwrap();
    folder.refused("n_head = null: the number of attention heads is needed");
    fs::remove_file(&config).unwrap();
    folder.refused("no config.json here, which says what model the weights are");
}

#[test]
fn weights_that_break_off_are_told_with_both_sizes() {
    let folder = Folder::new(|_| {});
    let path = folder.path("model/model.safetensors");
    let whole = fs::read(&path).unwrap();
    for cut in [whole.len() - 4, whole.len() / 2] {
        fs::write(&path, &whole[..cut]).unwrap();
        let sizes = format!("{cut} bytes are there, and its header announces {}", whole.len());
        folder.refused(&sizes);
    }
    fs::write(&path, &whole[..100]).unwrap();
    folder.refused("100 bytes are there; get it anew");
}

/// A perplexity of exp(20) is a bound, which must not be read as a result.
#[test]
fn a_perplexity_that_is_cut_says_so_beside_the_number() {
    // The final norm's gain is the scale of the logits, and so of the losses.
    let loud = Folder::new(|tensors| {
        let (_, gain) = tensors.get_mut("transformer.ln_f.weight").unwrap();
        gain.fill(1e4);
    });
    let report = loud.report();
    assert!(measured(&report.results[0]).metrics.capped);
    let table = report.to_string();
    let line = table.lines().find(|line| line.contains("word_perplexity")).unwrap();
    assert!(line.ends_with("cut at exp(20): the mean loss is above 20"), "{line}");
    assert!(!Folder::new(|_| {}).report().to_string().contains("cut at"));
}

#[test]
fn a_vocabulary_that_is_not_the_tokenizers_is_refused() {
    let cut = Folder::new(|tensors| {
        let (shape, numbers) = tensors.get_mut("transformer.wte.weight").unwrap();
        shape[0] = 300;
        numbers.truncate(300 * 8);
    });
    cut.refused("vocabulary of 300 tokens is not GPT-2's of 50257; put the tokenizer there");
    let files = TokenizerFiles::of(&Gpt2Tokenizer::new()).unwrap().files;
    cut.write("model/tokenizer.json", &files[0].1);
    cut.refused("the model has 300 tokens and the tokenizer 50257");
}

#[test]
fn rows_that_pad_the_table_never_win_and_have_no_probability() {
    // Each of them the sum of all rows a thousand times over would have a larger logit than any
    // token wherever the hidden state has any part in common with it: both signs are there.
    let padded = Folder::new(|tensors| {
        let (shape, numbers) = tensors.get_mut("transformer.wte.weight").unwrap();
        let rows = 50_304 - shape[0];
        numbers.extend(
            (0..rows * 8).map(|at| if at % 16 < 8 { 1e3 } else { -1e3 } * (at % 8 + 1) as f32),
        );
        shape[0] = 50_304;
    });
    let report = padded.report();
    assert_eq!(total_nll(&report), expected_total());
    padded.write("words.jsonl", "{\"text\": \"one two three\"}\n{\"text\": \"three two one\"}\n");
    let words = Task::Lambada(Lambada {
        name: "words".to_owned(),
        data: padded.path("words.jsonl"),
        protocol: Protocol::Megatron,
    });
    // Over two ranks the padding lies on the second.
    for ranks in [1, 2] {
        let plan = EvalPlan { tensor_parallel_size: positive(ranks), ..padded.plan() };
        let total = total_nll(&evaluate(&plan, &Silent).unwrap());
        super::assert_close(total, expected_total(), 1e-6);
        let report = evaluate(&EvalPlan { tasks: vec![words.clone()], ..plan }, &Silent).unwrap();
        let Some(Items::Examples(examples)) = &report.results[0].items else { panic!("{report}") };
        let predicted: Vec<u32> =
            examples.iter().flat_map(|example| example.predicted_tokens.clone()).collect();
        assert_eq!(predicted.len(), 2);
        assert!(predicted.iter().all(|&token| token < 50_257), "{predicted:?}");
    }
}

#[test]
fn scores_of_the_same_weights_under_another_configuration_are_not_gone_on_from() {
    let folder = Folder::new(|_| {});
    let path = folder.path("report.json.partial");
    let partial_scores = PartialScores::File { path, replace: false };
    let plan = EvalPlan { partial_scores, ..folder.plan() };
    let stopped = evaluate(&plan, &super::resume::Watch::until(4)).unwrap_err();
    assert!(matches!(stopped, EvalError::StoppedWithScores { .. }), "{stopped}");
    let config = folder.path("model/config.json");
    let exact = fs::read_to_string(&config).unwrap();
    fs::write(&config, exact.replace("\"gelu\"", "\"gelu_new\"")).unwrap();
    let error = evaluate(&plan, &Silent).unwrap_err().to_string();
    let expected = "the model's activation is gelu there and gelu_tanh here";
    assert!(error.contains(expected), "{error}");
    fs::write(&config, exact).unwrap();
    assert_eq!(total_nll(&evaluate(&plan, &Silent).unwrap()), expected_total());
}

#[test]
fn weights_that_are_no_numbers_end_in_an_error_with_window_and_position() {
    for bad in [f32::NAN, f32::INFINITY] {
        // In one place of one table: what a later position brings is multiplied with nothing, and is
        // no number all the same.
        let folder = Folder::new(|tensors| {
            tensors.get_mut("transformer.wpe.weight").unwrap().1[5 * 8] = bad;
        });
        folder.refused("at position 0 of window 0 of made");
        let error = evaluate(&folder.plan(), &Silent).unwrap_err();
        assert!(error.to_string().contains("a loss of NaN"), "{error}");
    }
}

/// A `model.safetensors` of the right header and no numbers: a file with a hole.
fn write_hollow(path: &Path, model: &Gpt2Config) {
    let mut header = serde_json::Map::new();
    let mut end = 0_usize;
    for spec in model.parameters() {
        let begin = end;
        end += 4 * spec.shape.iter().product::<usize>();
        let tensor = json!({ "dtype": "F32", "shape": spec.shape, "data_offsets": [begin, end] });
        header.insert(spec.name.clone(), tensor);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = File::create(path).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(&header).unwrap();
    file.set_len((8 + header.len() + end) as u64).unwrap();
}

#[test]
fn the_published_shapes_are_known_and_split_as_their_heads_do() {
    // Layers, width, heads and parameters of GPT-2's four models.
    for (num_layers, hidden_size, num_attention_heads, parameters, splits, refused) in [
        (12, 768, 12, 124_439_808_u64, 4, 5),
        (24, 1024, 16, 354_823_168, 8, 3),
        (36, 1280, 20, 774_030_080, 5, 8),
        (48, 1600, 25, 1_557_611_200, 5, 2),
    ] {
        let model = Gpt2Config {
            num_layers,
            hidden_size,
            num_attention_heads,
            seq_length: 1024,
            ..narrow_gpt2(1024)
        };
        let folder = Folder::new(|_| {});
        folder.write("model/config.json", config_of(&model, 50_257).to_string());
        write_hollow(&folder.path("model/model.safetensors"), &model);
        let at = |ranks| EvalPlan { tensor_parallel_size: positive(ranks), ..folder.plan() };
        let summary = at(1).summary(&Silent).unwrap();
        let padding = (50_304 - 50_257) * hidden_size as u64;
        assert_eq!(summary.parameters, parameters + padding);
        let positions = summary.tasks[0].token_positions as f64;
        let expected = 2.0 * summary.parameters as f64 * positions;
        assert_eq!(summary.floating_point_operations, expected);
        assert_eq!(at(splits).summary(&Silent).unwrap().model, summary.model);
        let error = at(refused).summary(&Silent).unwrap_err().to_string();
        let heads = format!("{num_attention_heads} attention heads cannot be split over --tp");
        assert!(error.contains(&heads), "{error}");
    }
}
