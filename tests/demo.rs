//! `pipeline demo`: the rules that make its test sets, and the whole road on a small text.

use std::path::Path;

use crate::support::{Dir, Run, pipeline, read_json, words};

#[path = "../pipeline/cli/machine_text/cloze.rs"]
mod cloze;
#[path = "../pipeline/cli/machine_text/prose.rs"]
mod prose;
#[path = "../pipeline/cli/machine_text/wikitext.rs"]
mod wikitext;

use prose::Prose;

/// The text of the article that Markdown becomes.
fn article(markdown: &str) -> String {
    wikitext::article(&Prose::read(markdown), "fallback", 1_000).text
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
    let prose = Prose::read(&format!("# T\n\n{PROSE}\n\n## P\n\n{PROSE}\n"));
    let article = wikitext::article(&prose, "", 1_000);
    assert_eq!(
        article.num_words,
        article.text.split_whitespace().count() + article.text.lines().count()
    );
}

/// The passages whose last word is to be guessed in Markdown.
fn passages(markdown: &str) -> Vec<String> {
    cloze::passages(&Prose::read(markdown))
}

/// Thirty-two words in three sentences; the last word stands in the first, with another case and a
/// mark.
const RIDDLE: &str = "The \"Garden\" was what they called it when nobody had been there for \
                      years. It had a gate that would not open. So they climbed the wall and stood \
                      in the garden.";

#[test]
fn a_passage_ends_in_a_word_that_occurs_before_and_without_its_period() {
    let expected = RIDDLE.strip_suffix('.').unwrap();
    assert_eq!(passages(RIDDLE), [expected]);
    // The next passage begins with the next sentence.
    assert_eq!(passages(&format!("# T\n\n{RIDDLE}\n{RIDDLE}\n")), [expected, expected]);
    // Paragraphs stay apart.
    let (first, second) = RIDDLE.split_at(RIDDLE.find("So").unwrap());
    let parted = format!("{}\n\n{second}", first.trim_end());
    assert_eq!(
        passages(&parted),
        [format!("{}\n\n{}", first.trim_end(), &second[..second.len() - 1])]
    );
}

#[test]
fn what_gives_no_last_word_to_guess_gives_no_passage() {
    for (why, text) in [
        ("another last word", RIDDLE.replace("the garden.", "the grass.")),
        ("another mark", RIDDLE.replace("the garden.", "the garden!")),
        ("no letter in it", RIDDLE.replace("Garden", "4321").replace("garden", "4321")),
        ("three letters", RIDDLE.replace("Garden", "Den").replace("garden", "den")),
        ("too few words", RIDDLE[RIDDLE.find("It had").unwrap()..].replace("gate", "garden")),
        ("a heading between", RIDDLE.replace("It had", "\n\n## Heading\n\nIt had")),
        (
            "a line of no prose between",
            RIDDLE.replace(
                "So they",
                "\n\nA caption that goes on until it is long enough\n\nSo they",
            ),
        ),
        ("an address", RIDDLE.replace("a gate", "https://example.org/gate")),
    ] {
        assert_eq!(passages(&text), Vec::<String>::new(), "{why}: {text}");
    }
}

#[test]
fn a_passage_that_grows_too_long_loses_its_first_sentences() {
    let filler = "This one sentence of nine words says nothing more! ".repeat(12);
    let found = passages(&format!("{filler}{RIDDLE}"));
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with(RIDDLE.strip_suffix('.').unwrap()), "{found:?}");
    assert!(found[0].starts_with("This one sentence"), "{found:?}");
    let num_words = found[0].split_whitespace().count();
    assert!((72..=80).contains(&num_words), "{num_words} words");
}

/// Made-up sentences that make one passage, different for each `seed`.
fn made_passage(seed: u64) -> String {
    let made = words(seed + 1_000, 36).replace(['.', '\n'], " ");
    let mut made: Vec<&str> = made.split_whitespace().collect();
    made[35] = made[0];
    format!(
        "The {}. The {}. The {}.",
        made[..12].join(" "),
        made[12..24].join(" "),
        made[24..].join(" ")
    )
}

/// A folder of twenty documents that differ, a copy, a near copy, and a licence.
fn text_folder(dir: &Dir) -> std::path::PathBuf {
    for seed in 0..20 {
        let text = format!("# Document {seed}\n\n{}\n\n{}\n", words(seed, 600), made_passage(seed));
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
    for row in
        ["demo-lambada, examples", "strict accuracy", "last-token accuracy", "demo-lambada.jsonl"]
    {
        assert!(run.stdout.contains(row), "{row}: {}", run.stdout);
    }

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
    let lambada = &report["evaluation"]["lambada"];
    assert_eq!(lambada["task"], "demo-lambada");
    assert_eq!((&lambada["examples"], &lambada["counts"]["examples"]), (&1.into(), &1.into()));
    for key in ["strict_accuracy", "last_token_accuracy"] {
        assert!((0.0..=1.0).contains(&lambada[key].as_f64().unwrap()), "{key}: {lambada}");
    }
    // Four steps teach hardly anything, but not less than nothing.
    let perplexity = |key: &str| lambada[key].as_f64().unwrap();
    assert!(perplexity("target_perplexity") < 2.0 * perplexity("uniform_target_perplexity"));
}

#[test]
fn an_override_of_the_evaluation_reaches_both_tasks() {
    let dir = Dir::new();
    let (text, out) = (text_folder(&dir), dir.path("out"));
    small_demo(&text, &out, &["--set", "eval.tensor_parallel_size=1"]).success();
    let report = read_json(&out.join("report.json"));
    for task in ["wikitext", "lambada"] {
        assert_eq!(report["evaluation"][task]["settings"]["tensor_parallel_size"], 1, "{task}");
    }
}

#[test]
fn text_without_a_passage_to_guess_leaves_the_last_words_out() {
    let dir = Dir::new();
    for seed in 0..20 {
        let text = format!("# Document {seed}\n\n{}\n", words(seed, 600));
        dir.write(&format!("text/crate-{seed:02}/README.md"), text);
    }
    let out = dir.path("out");
    let run = small_demo(&dir.path("text"), &out, &[]).success();
    assert!(!run.stdout.contains("strict accuracy"), "{}", run.stdout);
    assert!(!out.join("text/demo-lambada.jsonl").exists());
    assert!(read_json(&out.join("report.json"))["evaluation"]["lambada"].is_null());
}

#[test]
fn copies_of_a_passage_to_guess_are_not_trained_on() {
    let dir = Dir::new();
    let (text, out) = (text_folder(&dir), dir.path("out"));
    small_demo(&text, &out, &[]).success();
    let passages = std::fs::read_to_string(out.join("text/demo-lambada.jsonl")).unwrap();
    let passage: serde_json::Value =
        serde_json::from_str(passages.lines().next().unwrap()).unwrap();
    // The passage in the middle of a longer document of its own.
    let page = format!("# Page\n\n{}\n\n{}.\n", words(500, 400), passage["text"].as_str().unwrap());
    dir.write("text/crate-50/README.md", page);
    small_demo(&text, &out, &["--overwrite"]).success();
    let again = std::fs::read_to_string(out.join("text/demo-lambada.jsonl")).unwrap();
    assert_eq!(again, passages, "the same document is held out");
    let removed = std::fs::read_to_string(out.join("data/removed.jsonl")).unwrap();
    let page =
        removed.lines().find(|line| line.contains("crate-50/")).expect("the page is removed");
    assert!(page.contains("contaminated") && page.contains("demo-lambada.jsonl"), "{page}");
}

#[test]
fn the_held_out_documents_are_not_trained_on() {
    let dir = Dir::new();
    let (text, out) = (text_folder(&dir), dir.path("out"));
    small_demo(&text, &out, &[]).success();
    let test = std::fs::read_to_string(out.join("text/demo-wikitext.tokens")).unwrap();
    let title = test.lines().nth(1).unwrap().trim().trim_matches(['=', ' ']).to_owned();
    let documents = std::fs::read_to_string(out.join("text/documents.jsonl")).unwrap();
    // Document 3 has copies, which go as contaminated; of any other none is there in the first
    // place.
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
