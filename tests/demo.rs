//! `pipeline demo`: the rules that make its test text, and the whole road on a small text.

use std::path::Path;

use crate::support::{Dir, Run, pipeline, read_json, words};

#[path = "../pipeline/cli/demo/wikitext.rs"]
mod wikitext;

/// The text of the article that Markdown becomes.
fn article(markdown: &str) -> String {
    wikitext::article(markdown, "fallback", 1_000).text
}

const PROSE: &str = "One line of prose that is long enough to be kept as it stands.";
const PROSE_WORDS: &str = "One line of prose that is long enough to be kept as it stands .";

#[test]
fn headings_and_prose_take_the_form_of_wikitext() {
    let text = article(&format!("# Title\n\n{PROSE}\n\n## Part\n\n{PROSE}\n{PROSE}\n"));
    assert_eq!(
        text,
        format!(
            " \n = Title = \n \n {PROSE_WORDS} \n \n = = Part = = \n \n {PROSE_WORDS} {PROSE_WORDS} \n"
        )
    );
}

#[test]
fn only_the_first_heading_is_a_title() {
    let text = article(&format!("# One\n\n{PROSE}\n\n# Two\n\n{PROSE}\n"));
    assert_eq!(text.matches(" \n = One = \n").count(), 1);
    assert_eq!(text.matches(" \n = = Two = = \n").count(), 1);
}

#[test]
fn a_document_without_a_heading_is_called_by_its_folder() {
    assert!(article(PROSE).starts_with(" \n = fallback = \n \n "));
}

#[test]
fn code_tables_images_and_short_lines_are_dropped() {
    let text = article(&format!(
        "# T\n\n```rust\nlet code = \"that is much longer than the shortest line of prose\";\n```\n\n\
         | a table | of two columns that is long enough to be prose |\n|---|---|\n| 1 | 2 |\n\n\
         ![an image with a long description of what it shows](image.png)\n\nToo short.\n\n\
         <p>raw markup that is longer than the shortest line of prose</p>\n\n{PROSE}\n"
    ));
    assert_eq!(text, format!(" \n = T = \n \n {PROSE_WORDS} \n"));
}

#[test]
fn marks_are_cut_off_and_marks_inside_words_are_tagged() {
    for (written, cut) in [
        (
            "well-known words, and (so) on; in short:",
            "well @-@ known words , and ( so ) on ; in short :",
        ),
        ("about 1,000 to 2.5 of them", "about 1 @,@ 000 to 2 @.@ 5 of them"),
        ("the crate's \"own\" file.rs file", "the crate 's \" own \" file.rs file"),
        ("see https://example.org for more", "see for more"),
    ] {
        let text = article(&format!("# T\n\n{written} and then something more to make it long\n"));
        let line = text.lines().nth(3).unwrap();
        assert_eq!(line, format!(" {cut} and then something more to make it long "));
    }
}

#[test]
fn the_detokenizer_undoes_the_form() {
    let written =
        "A well-known text (with 1,000 words): it's \"fine\", and 2.5 times as long; is it? It is!";
    let text = article(&format!("# T\n\n{written}\n"));
    let plain = evaluation::detokenizer::detokenize(&text);
    assert_eq!(plain, format!("\n= T =\n\n{written}\n"));
}

#[test]
fn words_are_counted_as_the_benchmark_counts_them() {
    let article = wikitext::article(&format!("# T\n\n{PROSE}\n\n## P\n\n{PROSE}\n"), "", 1_000);
    assert_eq!(
        article.num_words,
        article.text.split_whitespace().count() + article.text.lines().count()
    );
}

/// A folder of twenty documents that differ, a copy, a near copy, and a licence.
fn text_folder(dir: &Dir) -> std::path::PathBuf {
    for seed in 0..20 {
        let text = format!("# Document {seed}\n\n{}\n", words(seed, 600));
        dir.write(&format!("text/crate-{seed:02}/README.md"), text);
    }
    let copy = format!("# Document 3\n\n{}\n", words(3, 600));
    dir.write("text/crate-97/README.md", &copy);
    dir.write(
        "text/crate-98/README.md",
        copy.replacen("and", "or", 1) + "And one sentence more.\n",
    );
    dir.write("text/crate-99/LICENSE", words(99, 300));
    dir.write("text/crate-99/tests/input.md", words(100, 300));
    dir.path("text")
}

/// The demo on `text` with a model that trains in a moment.
fn small_demo(text: &Path, out: &Path, more: &[&str]) -> Run {
    let mut args = vec!["demo".to_owned(), "--text".into(), text.display().to_string()];
    args.extend(["--out".into(), out.display().to_string()]);
    for assignment in [
        "train.model.gpt2.num_layers=1",
        "train.model.gpt2.hidden_size=16",
        "train.model.gpt2.num_attention_heads=2",
        "train.model.gpt2.seq_length=32",
        "train.batch.micro_batch_size=2",
        "train.batch.global_batch_size=2",
        "train.schedule.train_steps=4",
        "train.schedule.warmup_steps=1",
        "train.validation.batches=1",
        "train.data.split=\"8,2,0\"",
    ] {
        args.extend(["--set".to_owned(), assignment.to_owned()]);
    }
    args.extend(more.iter().map(|&arg| arg.to_owned()));
    pipeline(args)
}

#[test]
fn the_whole_road_runs_on_a_small_text_and_its_report_has_every_key() {
    let dir = Dir::new();
    let (text, out) = (text_folder(&dir), dir.path("out"));
    let run = small_demo(&text, &out, &[]).success();
    assert!(run.stdout.contains("word perplexity"), "{}", run.stdout);
    assert!(run.stdout.contains("demo-wikitext"), "{}", run.stdout);

    let report = read_json(&out.join("report.json"));
    let curation = &report["curation"];
    let held_out = report["text"]["num_held_out"].as_u64().unwrap();
    assert_eq!(held_out, 1);
    assert_eq!(curation["documents_in"].as_u64().unwrap(), 23 - held_out);
    let dropped: u64 = curation["dropped"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(
        curation["documents_kept"].as_u64().unwrap() + dropped,
        curation["documents_in"].as_u64().unwrap()
    );
    assert!(dropped >= 2, "a copy and a near copy are dropped: {curation}");
    let training = &report["training"];
    for key in ["first_loss", "final_loss", "unigram_loss", "tokens_per_second"] {
        assert!(training[key].as_f64().unwrap() > 0.0, "{key}: {training}");
    }
    assert_eq!(training["steps"], 4);
    assert_eq!(training["tensor_parallel_size"], 2);
    let wikitext = &report["evaluation"]["wikitext"];
    assert_eq!(wikitext["task"], "demo-wikitext");
    assert!(
        wikitext["word_perplexity"].as_f64().unwrap()
            > wikitext["token_perplexity"].as_f64().unwrap()
    );
}

#[test]
fn the_held_out_documents_are_not_trained_on() {
    let dir = Dir::new();
    let (text, out) = (text_folder(&dir), dir.path("out"));
    small_demo(&text, &out, &[]).success();
    let test = std::fs::read_to_string(out.join("text/demo-wikitext.tokens")).unwrap();
    let title = test.lines().nth(1).unwrap().trim().trim_matches(['=', ' ']).to_owned();
    let documents = std::fs::read_to_string(out.join("text/documents.jsonl")).unwrap();
    // Document 3 has copies, which go as contaminated; of any other none is there in the first place.
    let kept = std::fs::read_to_string(out.join("data/provenance.jsonl")).unwrap();
    assert!(!documents.contains(&format!("# {title}\\n")) || title == "Document 3");
    assert!(!kept.contains(&format!("crate-{:0>2}/", title.trim_start_matches("Document "))));
}

#[test]
fn a_second_demo_needs_to_be_told_to_overwrite_and_never_removes_what_is_not_its_own() {
    let dir = Dir::new();
    let (text, out) = (text_folder(&dir), dir.path("out"));
    small_demo(&text, &out, &[]).success();

    let refused = small_demo(&text, &out, &[]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--overwrite"), "{}", refused.stderr);

    small_demo(&text, &out, &["--overwrite"]).success();

    dir.write("other/notes.txt", "mine");
    let refused = small_demo(&text, &dir.path("other"), &["--overwrite"]);
    assert_eq!(refused.code, 2);
    assert!(dir.path("other/notes.txt").exists());
}

#[test]
fn without_text_the_demo_says_to_pass_some() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("empty")).unwrap();
    let run = pipeline([
        "demo".into(),
        "--text".into(),
        dir.path("empty"),
        "--out".into(),
        dir.path("out"),
    ]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--text"), "{}", run.stderr);

    let run = crate::support::pipeline_with(
        ["demo".into(), "--out".into(), dir.path("out")],
        &[("CARGO_HOME", dir.path("no-cargo").as_os_str())],
    );
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--text"), "{}", run.stderr);
    assert!(!dir.path("out").exists());
}
