//! Output that is not what was written.

use std::fs;
use std::path::PathBuf;

use super::{LINE, all_but, kept, reproduced};
use crate::support::{Dir, pipeline_in};

/// Changes a byte in the middle of a file.
fn damage(dir: &Dir, name: &str) {
    let path = dir.path(name);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
}

/// The only checkpoint of a size.
fn checkpoint(dir: &Dir, size: &str) -> String {
    let run = format!("out/runs/{size}/checkpoints");
    let names = fs::read_dir(dir.path(&run)).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = names.filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1);
    format!("{run}/{}", folders[0].file_name().unwrap().to_str().unwrap())
}

#[test]
fn a_damaged_training_is_named_and_trained_again_only_if_that_is_meant() {
    let (dir, _) = reproduced();
    let checkpoint = checkpoint(&dir, "large");
    for name in ["model.safetensors", "optimizer.safetensors", "manifest.json"] {
        let file = format!("{checkpoint}/{name}");
        let whole = fs::read(dir.path(&file)).unwrap();
        damage(&dir, &file);
        let run = pipeline_in(&dir, LINE).refused(2, &format!("{file} is damaged: its content"));
        assert!(run.stderr.contains("train large, finished"), "{}", run.stderr);
        assert!(run.stderr.contains("can be put back from a copy"), "{}", run.stderr);
        assert!(!run.stderr.contains("train small"), "{}", run.stderr);
        fs::write(dir.path(&file), whole).unwrap();
        assert_eq!(kept(&pipeline_in(&dir, LINE).success()), super::PARTS);
    }
    let file = format!("{checkpoint}/model.safetensors");
    fs::File::options().write(true).open(dir.path(&file)).unwrap().set_len(10).unwrap();
    let plan = pipeline_in(&dir, &format!("{LINE} --dry-run --json")).success();
    let state = plan.json()["parts"]["train.large"].as_str().unwrap().to_owned();
    assert!(
        state.starts_with("to do again: ") && state.contains("it has 10 bytes, not"),
        "{state}"
    );
    assert!(plan.stderr.contains("the run would be refused"), "{}", plan.stderr);
    let run = pipeline_in(&dir, &format!("{LINE} --redo")).success();
    assert_eq!(kept(&run), all_but(&["train large"]), "the same weights, and so the same scores");
    assert!(run.stderr.contains("train large: is done again: "), "{}", run.stderr);
}

#[test]
fn other_output_that_is_damaged_is_made_again() {
    let (dir, _) = reproduced();
    for (file, part) in [
        ("out/data/corpus.bin", "corpus"),
        ("out/text/documents.jsonl", "text"),
        ("out/text/demo-lambada.jsonl", "text"),
        ("out/contamination.json", "contamination"),
        ("out/eval/small.wikitext103.json", "eval small wikitext103"),
        ("out/report.json", "page"),
        ("out/table3.html", "page"),
    ] {
        let whole = fs::read(dir.path(file)).unwrap();
        damage(&dir, file);
        let run = pipeline_in(&dir, LINE).success();
        assert_eq!(kept(&run), all_but(&[part]), "{file}");
        assert!(run.stderr.contains(&format!("{file} is damaged")), "{}", run.stderr);
        if ["text", "corpus"].contains(&part) {
            assert!(fs::read(dir.path(file)).unwrap() == whole, "{file}"); // others tell their time
        }
        assert_eq!(kept(&pipeline_in(&dir, LINE).success()), super::PARTS, "{file}");
    }
}

#[test]
fn a_folder_that_has_lost_its_journal_is_told_from_a_strangers() {
    let (dir, _) = reproduced();
    fs::remove_file(dir.path("out/reproduce.json")).unwrap();
    for more in ["", "--overwrite", "--redo", "--dry-run"] {
        let run = pipeline_in(&dir, &format!("{LINE} {more}"))
            .refused(2, "out looks like a reproduction (data, text, runs, eval,");
        for remedy in ["lost reproduce.json", "from a copy", "pass --out", "--checkpoint out/runs"]
        {
            assert!(run.stderr.contains(remedy), "{remedy}: {}", run.stderr);
        }
    }
    assert!(dir.path("out/runs/large/checkpoints").exists());
}

#[test]
fn a_folder_whose_journal_is_damaged_is_told_what_can_be_done() {
    let (dir, _) = reproduced();
    let journal = dir.path("out/reproduce.json");
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..300]).unwrap();
    for more in ["", "--overwrite", "--redo", "--dry-run"] {
        let run = pipeline_in(&dir, &format!("{LINE} {more}")).refused(2, "reproduce.json: ");
        for remedy in ["damaged", "from a copy", "pass --out", "--checkpoint out/runs"] {
            assert!(run.stderr.contains(remedy), "{remedy}: {}", run.stderr);
        }
    }
    fs::write(&journal, &whole).unwrap();
    pipeline_in(&dir, LINE).success();
}
