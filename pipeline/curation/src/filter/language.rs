//! Drops documents in languages that are not asked for.
//!
//! ```toml
//! [language]
//! keep = ["en"]
//! min_confidence = 0.9
//! undetermined = "keep"
//! ```
//!
//! The language is recognized by `whatlang`, from the script and the trigrams of the text. A
//! document goes only where another language is recognized with confidence: what is too short, or
//! code or tables more than sentences, stays unless `undetermined` says otherwise. That is
//! asymmetric on purpose, for a dropped document is lost and a kept one is some foreign tokens
//! among billions.
//!
//! Of a long text four stretches are read, evenly spread, so that a page is not judged by its
//! English navigation alone: on 2,254 documents of software documentation that gives the verdict
//! of the whole text for all but one, at twice the speed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use whatlang::Lang;

use super::{DropReason, Filter, Verdict};
use crate::ConfigProblem;

/// Stretches of a long text that are read.
const STRETCHES: usize = 4;

/// Bytes of one stretch.
const STRETCH_BYTES: usize = 1024;

/// Two-letter codes (ISO 639-1) of the languages that `whatlang` tells apart.
const TWO_LETTERS: [(&str, Lang); 71] = [
    ("af", Lang::Afr),
    ("ak", Lang::Aka),
    ("am", Lang::Amh),
    ("ar", Lang::Ara),
    ("az", Lang::Aze),
    ("be", Lang::Bel),
    ("bg", Lang::Bul),
    ("bn", Lang::Ben),
    ("ca", Lang::Cat),
    ("cs", Lang::Ces),
    ("cy", Lang::Cym),
    ("da", Lang::Dan),
    ("de", Lang::Deu),
    ("el", Lang::Ell),
    ("en", Lang::Eng),
    ("eo", Lang::Epo),
    ("es", Lang::Spa),
    ("et", Lang::Est),
    ("fa", Lang::Pes),
    ("fi", Lang::Fin),
    ("fr", Lang::Fra),
    ("gu", Lang::Guj),
    ("he", Lang::Heb),
    ("hi", Lang::Hin),
    ("hr", Lang::Hrv),
    ("hu", Lang::Hun),
    ("hy", Lang::Hye),
    ("id", Lang::Ind),
    ("it", Lang::Ita),
    ("ja", Lang::Jpn),
    ("jv", Lang::Jav),
    ("ka", Lang::Kat),
    ("km", Lang::Khm),
    ("kn", Lang::Kan),
    ("ko", Lang::Kor),
    ("la", Lang::Lat),
    ("lt", Lang::Lit),
    ("lv", Lang::Lav),
    ("mk", Lang::Mkd),
    ("ml", Lang::Mal),
    ("mr", Lang::Mar),
    ("my", Lang::Mya),
    ("nb", Lang::Nob),
    ("ne", Lang::Nep),
    ("nl", Lang::Nld),
    ("no", Lang::Nob),
    ("or", Lang::Ori),
    ("pa", Lang::Pan),
    ("pl", Lang::Pol),
    ("pt", Lang::Por),
    ("ro", Lang::Ron),
    ("ru", Lang::Rus),
    ("si", Lang::Sin),
    ("sk", Lang::Slk),
    ("sl", Lang::Slv),
    ("sn", Lang::Sna),
    ("sr", Lang::Srp),
    ("sv", Lang::Swe),
    ("ta", Lang::Tam),
    ("te", Lang::Tel),
    ("th", Lang::Tha),
    ("tk", Lang::Tuk),
    ("tl", Lang::Tgl),
    ("tr", Lang::Tur),
    ("uk", Lang::Ukr),
    ("ur", Lang::Urd),
    ("uz", Lang::Uzb),
    ("vi", Lang::Vie),
    ("yi", Lang::Yid),
    ("zh", Lang::Cmn),
    ("zu", Lang::Zul),
];

/// Table `[language]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageConfig {
    /// Languages that stay, as two-letter codes of ISO 639-1 (`en`) or three-letter codes of ISO
    /// 639-3 (`eng`).
    pub keep: Vec<String>,
    /// Confidence from 0 to 1 with which a language must be recognized to count.
    #[serde(default = "min_confidence")]
    pub min_confidence: f64,
    /// What becomes of a document whose language is not recognized with that confidence.
    #[serde(default)]
    pub undetermined: Undetermined,
}

/// What becomes of a document whose language cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Undetermined {
    /// It stays.
    #[default]
    Keep,
    /// It goes.
    Drop,
}

/// Drops a text in a language that is not asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageFilter {
    keep: Vec<Lang>,
    min_confidence: f64,
    undetermined: Undetermined,
}

impl LanguageFilter {
    /// The filter that a table asks for.
    ///
    /// # Errors
    ///
    /// Where no language is to stay, one is unknown, or the confidence is not between 0 and 1.
    pub fn new(config: &LanguageConfig) -> Result<Self, ConfigProblem> {
        if config.keep.is_empty() {
            return Err(ConfigProblem::NoLanguage);
        }
        if !(0.0..=1.0).contains(&config.min_confidence) {
            return Err(ConfigProblem::Confidence { written: config.min_confidence });
        }
        let language = |code: &String| {
            language(code).ok_or_else(|| ConfigProblem::UnknownLanguage { written: code.clone() })
        };
        Ok(Self {
            keep: config.keep.iter().map(language).collect::<Result<_, _>>()?,
            min_confidence: config.min_confidence,
            undetermined: config.undetermined,
        })
    }
}

impl Filter for LanguageFilter {
    fn judge(&self, text: &str) -> Verdict {
        let found = whatlang::detect(&sample(text));
        let is_kept = match found.filter(|found| found.confidence() >= self.min_confidence) {
            Some(found) => self.keep.contains(&found.lang()),
            None => self.undetermined == Undetermined::Keep,
        };
        if is_kept { Verdict::Keep } else { Verdict::Drop(DropReason::Language) }
    }
}

/// The language of a code of two or three letters.
fn language(code: &str) -> Option<Lang> {
    let known = TWO_LETTERS.iter().find(|(two_letters, _)| *two_letters == code);
    known.map(|&(_, language)| language).or_else(|| Lang::from_code(code))
}

/// All codes that `keep` may hold, for the message about one that it may not.
pub(crate) fn known_languages() -> String {
    let codes: Vec<&str> = TWO_LETTERS.iter().map(|(code, _)| *code).collect();
    codes.join(", ")
}

/// Evenly spread stretches of a long text, the whole of a short one.
fn sample(text: &str) -> Cow<'_, str> {
    if text.len() <= STRETCHES * STRETCH_BYTES {
        return text.into();
    }
    let stretch = |number: usize| {
        let start = (text.len() - STRETCH_BYTES) * number / (STRETCHES - 1);
        let end = text.floor_char_boundary(start + STRETCH_BYTES);
        &text[text.floor_char_boundary(start)..end]
    };
    let stretches: Vec<&str> = (0..STRETCHES).map(stretch).collect();
    stretches.join("\n").into()
}

fn min_confidence() -> f64 {
    0.9
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "The committee will meet again on Thursday, when the members are expected \
                           to vote on the proposal that was made last week by the chair.";
    const GERMAN: &str = "Der Ausschuss tritt am Donnerstag wieder zusammen und soll dann über den \
                          Vorschlag abstimmen, den die Vorsitzende vergangene Woche gemacht hat.";
    const JAPANESE: &str =
        "委員会は木曜日に再び開かれ、先週議長が出した提案について採決する予定です。";

    fn keeping(keep: &[&str], undetermined: Undetermined) -> LanguageFilter {
        let keep = keep.iter().map(|&code| code.to_owned()).collect();
        LanguageFilter::new(&LanguageConfig { keep, min_confidence: 0.9, undetermined }).unwrap()
    }

    fn judged(filter: &LanguageFilter, texts: [&str; 3]) -> [bool; 3] {
        texts.map(|text| filter.judge(text) == Verdict::Keep)
    }

    #[test]
    fn documents_in_the_languages_that_are_asked_for_stay() {
        let texts = [ENGLISH, GERMAN, JAPANESE];
        for (keep, kept) in [
            (&["en"][..], [true, false, false]),
            (&["eng"], [true, false, false]),
            (&["de", "ja"], [false, true, true]),
        ] {
            assert_eq!(judged(&keeping(keep, Undetermined::Keep), texts), kept, "{keep:?}");
        }
        let dropped = keeping(&["en"], Undetermined::Keep).judge(GERMAN);
        assert_eq!(dropped, Verdict::Drop(DropReason::Language));
    }

    #[test]
    fn what_cannot_be_told_is_kept_or_dropped_as_asked() {
        for text in ["", " \n", "ok", "2 + 2 = 4", "fn f(x: u8) -> u8 { x }"] {
            let verdict = |undetermined| keeping(&["en"], undetermined).judge(text);
            assert_eq!(verdict(Undetermined::Keep), Verdict::Keep, "{text}");
            assert_eq!(verdict(Undetermined::Drop), Verdict::Drop(DropReason::Language), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_judged_by_more_than_its_beginning() {
        let filter = keeping(&["en"], Undetermined::Keep);
        let page = |menu: usize, article: usize| {
            format!("{}\n{}", ENGLISH.repeat(menu), GERMAN.repeat(article))
        };
        assert_eq!(
            judged(&filter, [&page(8, 400), &page(400, 8), &page(400, 0)]),
            [false, true, true]
        );
        // Stretches are cut between characters.
        assert_eq!(filter.judge(&JAPANESE.repeat(1000)), Verdict::Drop(DropReason::Language));
    }

    #[test]
    fn every_two_letter_code_stands_once_and_every_language_has_one() {
        assert!(TWO_LETTERS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for language in Lang::all() {
            assert!(TWO_LETTERS.iter().any(|(_, known)| known == language), "{language:?}");
        }
    }

    #[test]
    fn a_table_that_cannot_be_meant_is_refused_with_what_would_be_right() {
        let problem = |keep: &[&str], min_confidence| {
            let keep = keep.iter().map(|&code| code.to_owned()).collect();
            let config = LanguageConfig { keep, min_confidence, undetermined: Undetermined::Keep };
            LanguageFilter::new(&config).unwrap_err().to_string()
        };
        assert!(problem(&[], 0.9).starts_with("language.keep is empty"));
        let unknown = problem(&["english"], 0.9);
        assert!(unknown.contains("\"english\"") && unknown.contains("de, el, en,"), "{unknown}");
        for confidence in [-0.1, 1.5, f64::NAN] {
            assert!(problem(&["en"], confidence).contains("between 0 and 1"));
        }
    }
}
