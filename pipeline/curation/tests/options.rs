//! What a configuration may ask for beyond the paper's cleaning, and what is off without it.
#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod generate;
mod workspace;

use corpus::reader::{ModelFamily, SourceConfig};
use curation::filter::{DropReason, LanguageConfig, Undetermined};
use curation::{CurationConfig, UnicodeRepairConfig};
use serde_json::json;
use workspace::{Workspace, jsonl, words};

const ENGLISH: &str = "The committee will meet again on Thursday, when the members are expected to \
                       vote on the proposal that was made last week by the chair.";
const GERMAN: &str = "Der Ausschuss tritt am Donnerstag wieder zusammen und soll dann über den \
                      Vorschlag abstimmen, den die Vorsitzende vergangene Woche gemacht hat.";

#[test]
fn documents_in_other_languages_go_where_that_is_asked_for() {
    let workspace = Workspace::new();
    workspace.write_texts(&[ENGLISH, GERMAN, "2 + 2 = 4"]);
    let config = workspace.config_without_length();
    let language = LanguageConfig {
        keep: vec!["en".to_owned()],
        min_confidence: 0.9,
        undetermined: Undetermined::Keep,
    };
    let report = workspace
        .curate(CurationConfig { language: Some(language.clone()), ..config.clone() })
        .unwrap();
    assert_eq!(report.dropped, [(DropReason::Language, 1)].into());
    assert_eq!(workspace.kept_ids(), ["0", "2"]);
    assert_eq!(workspace.json_lines("removed.jsonl")[0]["reason"], json!("language"));

    let strict = LanguageConfig { undetermined: Undetermined::Drop, ..language };
    let other = Workspace::new();
    other.write_texts(&[ENGLISH, GERMAN, "2 + 2 = 4"]);
    let config = CurationConfig { language: Some(strict), ..other.config_without_length() };
    other.curate(config).unwrap();
    assert_eq!(other.kept_ids(), ["0"]);
}

#[test]
fn equal_texts_stay_where_that_is_asked_for() {
    let workspace = Workspace::new();
    workspace.write_texts(&[words(1, 200), words(2, 200), words(1, 200)]);
    let config =
        CurationConfig { exact_duplicates: false, near_duplicates: None, ..workspace.config() };
    let report = workspace.curate(config).unwrap();
    assert_eq!((report.documents_kept, report.dropped.len()), (3, 0));
    assert_eq!(report.similarity, None, "near-duplicates were not looked for");
}

#[test]
fn sources_are_left_out_for_the_model_that_they_name() {
    let workspace = Workspace::new();
    workspace.write_texts(&[words(1, 200)]);
    let mut books = SourceConfig::jsonl(
        workspace.write("books.jsonl", &jsonl(&[words(2, 200), words(3, 200)])),
    );
    books.name = "books".to_owned();
    books.exclude_for = vec![ModelFamily::Gpt2];
    let mut config = workspace.config();
    config.sources.push(books);

    let summary = config.clone().validate().unwrap().summary().unwrap();
    assert_eq!(
        (summary.sources.len(), &summary.excluded_sources[..]),
        (1, &["books".to_owned()][..])
    );
    let report = workspace.curate(config.clone()).unwrap();
    assert_eq!((report.documents_in, &report.excluded_sources), (1, &summary.excluded_sources));
    let page = String::from_utf8(workspace.bytes("report.html")).unwrap();
    assert!(page.contains("books was left out"));

    config.model = ModelFamily::Bert;
    let summary = config.clone().validate().unwrap().summary().unwrap();
    assert_eq!((summary.sources.len(), summary.excluded_sources.len()), (2, 0));

    config.model = ModelFamily::Gpt2;
    config.sources.remove(0);
    let error = config.validate().err().unwrap().to_string();
    assert!(error.contains("nothing is left for model = \"gpt2\""), "{error}");
}

#[cfg(feature = "unicode-repair")]
#[test]
fn wrongly_decoded_text_is_mended_before_it_is_judged() {
    let workspace = Workspace::new();
    workspace.write_texts(&["It doesnâ€™t matter.", "It doesn't matter.", "Plain."]);
    let config = CurationConfig {
        unicode_repair: Some(UnicodeRepairConfig {}),
        ..workspace.config_without_length()
    };
    let report = workspace.curate(config).unwrap();
    assert_eq!(report.unicode_repaired, Some(1));
    assert_eq!(report.dropped, [(DropReason::ExactDuplicate, 1)].into());
}

#[cfg(not(feature = "unicode-repair"))]
#[test]
fn unicode_repair_is_refused_by_a_program_that_was_built_without_it() {
    let config = CurationConfig {
        unicode_repair: Some(UnicodeRepairConfig {}),
        ..Workspace::new().config()
    };
    let error = config.validate().err().unwrap().to_string();
    assert!(error.contains("--features unicode-repair"), "{error}");
}

#[test]
fn without_their_tables_the_options_are_off() {
    let workspace = Workspace::new();
    workspace.write_texts(&[GERMAN, "It doesnâ€™t matter."]);
    let report = workspace.curate(workspace.config_without_length()).unwrap();
    assert_eq!((report.documents_kept, report.unicode_repaired), (2, None));
}
