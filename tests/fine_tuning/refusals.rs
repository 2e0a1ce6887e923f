//! What a fine-tuning cannot be made of, in the user's words.

use std::fs;
use std::path::PathBuf;

use training::config::{ModelConfig, TrainConfig};
use training::data::WeightedPath;
use training::fine_tuning::FineTuneConfig;
use training::plan::RunOptions;

use super::{BENCH, article, config, options, write_race};
use crate::support::Dir;
use crate::support::word_pieces::word_pieces_of;

/// The error of `config` with other options.
#[track_caller]
fn refused(config: TrainConfig, change: impl FnOnce(&mut RunOptions), parts: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    let mut options = options(&out.path().join("run"));
    change(&mut options);
    let error = config.validate(options).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "no {part:?} in {error:?}");
    }
}

fn data(path: PathBuf) -> Vec<WeightedPath> {
    vec![WeightedPath::unweighted(path)]
}

#[test]
fn folder_without_a_split_is_refused_with_what_is_there() {
    let dir = Dir::new();
    refused(
        config(|_| {}),
        |it| it.data = data(BENCH.path("data")),
        &["no folder train here, and no other; give the folder of RACE"],
    );
    refused(config(|_| {}), |it| it.data = data(dir.path("nowhere")), &["nowhere"]);
    write_race(&dir, "no-dev");
    fs::remove_dir_all(dir.path("no-dev/dev")).unwrap();
    let lacks_dev = ["no-dev: no folder dev here (there are train)"];
    refused(config(|_| {}), |it| it.data = data(dir.path("no-dev")), &lacks_dev);
    write_race(&dir, "no-train");
    fs::remove_dir_all(dir.path("no-train/train")).unwrap();
    let lacks_train = ["no-train: no folder train here (there are dev)"];
    refused(config(|_| {}), |it| it.data = data(dir.path("no-train")), &lacks_train);
    write_race(&dir, "level");
    fs::remove_dir_all(dir.path("level/train/high")).unwrap();
    refused(config(|_| {}), |it| it.data = data(dir.path("level")), &["no folder high here"]);

    // Without a validation no dev is needed.
    let out = dir.path("run");
    let options = RunOptions { data: data(dir.path("no-dev")), ..options(&out) };
    assert!(config(|config| config.validation = None).validate(options).is_ok());
}

#[test]
fn broken_article_is_refused_with_its_file_and_line() {
    let dir = Dir::new();
    write_race(&dir, "RACE");
    let mut broken = article("train", 3);
    broken["answers"][1] = "E".into();
    dir.write("RACE/train/high/3.txt", broken.to_string());
    let parts = ["train/high/3.txt:1", "the answer to question 1 is \"E\"; A, B, C or D is needed"];
    refused(config(|_| {}), |it| it.data = data(dir.path("RACE")), &parts);
}

#[test]
fn race_is_trained_on_alone_and_without_a_weight() {
    let weighted = |weight| WeightedPath { path: BENCH.path("RACE"), weight };
    let one = ["RACE:0.5: fine-tuning takes one folder of RACE, without a weight"];
    refused(config(|_| {}), |it| it.data = vec![weighted(Some(0.5))], &one);
    let two = ["fine-tuning takes one folder of RACE"];
    refused(config(|_| {}), |it| it.data = vec![weighted(None), weighted(None)], &two);
}

#[test]
fn sections_of_other_models_and_other_data_have_no_place() {
    let gpt2 = |config: &mut TrainConfig| {
        let mut model = toml::Value::try_from(&config.model).unwrap();
        let section = model.as_table_mut().unwrap().remove("bert").unwrap();
        let mut section = section.as_table().unwrap().clone();
        section.remove("arrangement");
        let model = toml::Table::from_iter([("gpt2".to_owned(), section.into())]);
        config.model = toml::Value::from(model).try_into().unwrap();
    };
    refused(config(gpt2), |_| {}, &["finetune.race = given: belongs to [model.bert]"]);
    let masked = |config: &mut TrainConfig| config.data.masked_lm = Some(Default::default());
    refused(config(masked), |_| {}, &["data.masked_lm = given", "[finetune.race]"]);
    let split = |config: &mut TrainConfig| config.data.split = "80,20,0".parse().unwrap();
    refused(config(split), |_| {}, &["data.split = 80,20,0", "of its own; leave it out"]);
    let megatron =
        |config: &mut TrainConfig| config.data.order = training::data::SampleOrder::Megatron;
    refused(config(megatron), |_| {}, &["data.order = megatron", "keyed or sequential is needed"]);
    let short = |config: &mut TrainConfig| {
        let ModelConfig::Bert(section) = &mut config.model else { panic!("a BERT") };
        section.seq_length = 7.try_into().unwrap();
    };
    refused(config(short), |_| {}, &["model.bert.seq_length = 7: 8 or more is needed"]);
    let once = |config: &mut TrainConfig| {
        config.data.repeat = training::config::Repeat::Refuse;
        set_race(config, Some(2.0), Some(0.0));
    };
    refused(config(once), |_| {}, &["has 96 samples, and the run takes 192 of it (2.0 epochs)"]);
    // And a model that is not fine-tuned is trained on text.
    let pre_trained = |config: &mut TrainConfig| {
        config.finetune = None;
        config.schedule.train_steps = 5.try_into().ok();
        config.schedule.warmup_steps = Some(1);
    };
    refused(config(pre_trained), |_| {}, &["RACE: no data folder there"]);
}

fn set_race(config: &mut TrainConfig, epochs: Option<f64>, warmup_share: Option<f64>) {
    let FineTuneConfig::Race(race) = config.finetune.as_mut().unwrap();
    (race.epochs, race.warmup_share) = (epochs, warmup_share);
}

#[test]
fn length_is_written_once() {
    let both = |config: &mut TrainConfig| config.schedule.train_steps = 10.try_into().ok();
    let parts =
        ["schedule.train_steps = 10 and finetune.race.epochs = 0.5", "leave one of them out"];
    refused(config(both), |_| {}, &parts);
    let both = |config: &mut TrainConfig| config.schedule.warmup_steps = Some(3);
    let parts = ["schedule.warmup_steps = 3 and finetune.race.warmup_share = 0.25"];
    refused(config(both), |_| {}, &parts);
    let neither = |config: &mut TrainConfig| set_race(config, None, Some(0.1));
    let parts = ["schedule.train_steps = not given: give it, or finetune.race.epochs"];
    refused(config(neither), |_| {}, &parts);
    let neither = |config: &mut TrainConfig| set_race(config, Some(1.0), None);
    let parts = ["schedule.warmup_steps = not given: give it, or finetune.race.warmup_share"];
    refused(config(neither), |_| {}, &parts);
    for (epochs, share, part) in [
        (0.0, 0.1, "finetune.race.epochs = 0: must be a number above 0"),
        (f64::INFINITY, 0.1, "finetune.race.epochs = inf"),
        (1.0, 1.5, "finetune.race.warmup_share = 1.5: must lie between 0 and 1"),
    ] {
        let change = |config: &mut TrainConfig| set_race(config, Some(epochs), Some(share));
        refused(config(change), |_| {}, &[part]);
    }
    // A model that is pre-trained has no epochs to take its place.
    let text = "[batch]\nmicro_batch_size = 1\nglobal_batch_size = 1\n[schedule]\n";
    let pre_training: TrainConfig = toml::from_str(&format!("{}{text}", super::MODEL)).unwrap();
    let parts = ["schedule.train_steps = not given: a number of steps is needed"];
    refused(pre_training, |it| it.data = data(BENCH.path("data")), &parts);
    // Without data, epochs say nothing.
    let mut planned = config(|_| {});
    let ModelConfig::Bert(section) = &mut planned.model else { panic!("a BERT") };
    section.vocab_size = 34.try_into().ok();
    let error = planned.summary().unwrap_err().to_string();
    assert!(error.contains("finetune.race.epochs = 0.5") && error.contains("--data"), "{error}");
}

#[test]
fn weights_have_to_be_a_pre_trained_bert_s_of_these_sizes() {
    let parts = ["fine-tuning starts from a pre-trained model: name its folder by --init-from"];
    refused(config(|_| {}), |it| it.init_from = None, &parts);

    let wider = |config: &mut TrainConfig| {
        let ModelConfig::Bert(section) = &mut config.model else { panic!("a BERT") };
        section.hidden_size = 48.try_into().unwrap();
        section.num_layers = 3.try_into().unwrap();
        section.seq_length = 20.try_into().unwrap();
        section.hidden_dropout = 0.3; // the run's own affair
    };
    let parts = [
        "num_layers is 2 there and 3 here",
        "hidden_size is 32 there and 48 here",
        "seq_length is 24 there and 20 here",
    ];
    refused(config(wider), |_| {}, &parts);
    let dropout = |config: &mut TrainConfig| {
        let ModelConfig::Bert(section) = &mut config.model else { panic!("a BERT") };
        section.hidden_dropout = 0.3;
    };
    let out = tempfile::tempdir().unwrap();
    assert!(config(dropout).validate(options(&out.path().join("run"))).is_ok());

    let gpt2 = crate::micro_gpt2::path("gpt2_micro", "model.safetensors");
    let dir = Dir::new();
    fs::create_dir_all(dir.path("gpt2")).unwrap();
    fs::copy(gpt2, dir.path("gpt2/model.safetensors")).unwrap();
    let sizes = serde_json::json!({
        "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64,
        "vocab_size": 96, "activation_function": "gelu",
    });
    dir.write("gpt2/config.json", sizes.to_string());
    let named = |it: &mut TrainConfig| {
        it.data.tokenizer = BENCH.path("tokenizer.json").to_str().map(str::to_owned);
    };
    let parts = ["the model is gpt2 there and bert here"];
    refused(config(named), |it| it.init_from = Some(dir.path("gpt2")), &parts);
}

#[test]
fn tokenizer_has_to_be_a_masked_language_model_s_and_the_weights_own() {
    let dir = Dir::new();
    let copy = |name: &str, tokenizer: Option<String>| {
        for file in ["config.json", "model.safetensors"] {
            dir.write(&format!("{name}/{file}"), fs::read(BENCH.path("hf").join(file)).unwrap());
        }
        if let Some(text) = tokenizer {
            dir.write(&format!("{name}/tokenizer.json"), text);
        }
    };
    copy("none", None);
    let parts = ["none: no tokenizer there", "--set data.tokenizer=bert"];
    refused(config(|_| {}), |it| it.init_from = Some(dir.path("none")), &parts);
    // As many tokens, but no [MASK].
    let tokens: Vec<String> = (0..34)
        .map(|id| match id {
            0 => "[PAD]".to_owned(),
            1 => "[UNK]".to_owned(),
            2 => "[CLS]".to_owned(),
            3 => "[SEP]".to_owned(),
            id => format!("v{id}"),
        })
        .collect();
    copy("unmasked", Some(word_pieces_of(&tokens)));
    let parts = ["has no [MASK]: a masked language model needs"];
    refused(config(|_| {}), |it| it.init_from = Some(dir.path("unmasked")), &parts);
    // Another one than that of the weights.
    let other = dir.write("other.json", word_pieces_of(&tokens));
    let given =
        |config: &mut TrainConfig| config.data.tokenizer = other.to_str().map(str::to_owned);
    refused(config(given), |_| {}, &["--init-from", "its tokenizer is "]);
}
