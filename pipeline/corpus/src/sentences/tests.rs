//! Where sentences end, by example and by property.

use proptest::prelude::*;

use super::*;

/// Texts with their sentences, parted by `|`.
const CASES: &[&str] = &[
    "One sentence.|And another!|A third?|Yes.",
    "No mark at the end",
    "Dr. Smith met Mrs. Jones at St. Paul's.|They talked.",
    "Prof. J. R. R. Tolkien wrote it.|It sold.",
    "George W. Bush spoke.|We listened.",
    "It costs 3.14 dollars, or 1.000,50 euros.|Cheap.",
    "See Fig. 2 and No. 7 in vol. 3.|They agree.",
    "I said no.|Then I left.",
    "Use a language, e.g. Rust or C, i.e. a fast one.|It pays.",
    "Apples, pears, etc. are fruit.|Buy apples, pears, etc.|The shop is open.",
    "Acme Inc. was founded in 1990.|In 2000 it failed.",
    "He works for Acme Inc.|The firm is large.",
    "The U.S. Army left the U.S.|The war was over.",
    "At 5 p.m. Monday we met.|It was 6 a.m.|We slept.",
    "She has a Ph.D. in physics.|It took years.",
    "\"Why?\" he asked.|\"Because,\" she said.|(He left.)|\"Go!\"|She went.",
    "“Really?” she said.|‘Yes.’|He nodded.",
    "Wait... what?|Well...|Then nothing.|He said… and stopped.",
    "What?!|No way!!!|Yes.",
    "1. Introduction to the matter.|It begins in 1990.|2. The end.",
    "3.2.9. The call.|2.1. Its arguments are two.",
    "Visit example.com or Node.js today.|Version 1.2.3 is out.",
    "End.Next is not cut.|This is.",
    "A heading\n\n|A paragraph that is\nwrapped.|More of it.\n\n\n|The last",
    "Windows ends\r\n\r\n|Next paragraph.",
    "これは文です。|次の文！|「終わりですか？」|はい。",
    "He paid approx. five dollars vs. ten.|Fine.",
    "On Jan. 5 it snowed.|By Sept. 1 it was hot.|The sun.",
    "The sun.|It shines.|They sat.|He did.",
    "Smith et al. found it.|Others (cf. Jones et al. 1999) did not.",
    "J. Smith Jr. came.|Robert Downey Jr.|He acts.",
    "lower case text has no capitals.|it is cut all the same.|dr. who is not.",
    "Он пришёл.|Она ушла!|Всё.",
    "*Emphasis.*|_More._|Done.",
    "[See above.]|{And below.}|Fine.",
    "!|?|...",
    "Mr.",
];

#[test]
fn sentences_end_where_a_reader_ends_them() {
    let mut wrong = Vec::new();
    for case in CASES {
        let expected: Vec<&str> = case.split('|').map(str::trim).collect();
        let text = case.replace('|', if case.contains('。') { "" } else { " " });
        let found: Vec<&str> = sentences(&text).collect();
        if found != expected {
            wrong.push(format!("{found:?}\n  instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn white_space_alone_has_no_sentence() {
    for text in ["", " ", "\n\n \t\u{3000}\r\n"] {
        assert_eq!(sentences(text).count(), 0, "{text:?}");
    }
}

#[test]
fn long_text_without_a_boundary_takes_time_in_proportion_to_it() {
    // Every mark is looked at, and each once: quadratic work would take minutes here.
    let text = "Mr. ".repeat(500_000);
    assert_eq!(sentences(&text).count(), 1);
    assert_eq!(sentences(&"a.".repeat(1_000_000)).count(), 1);
    assert_eq!(sentences(&"Go. ".repeat(500_000)).count(), 500_000);
}

proptest! {
    #[test]
    fn sentences_are_the_text_but_for_white_space_between(
        text in "([A-Za-z]{1,4}|Dr|U\\.S|[.!?…。\"')(\\[ \n\t]|[0-9]|\\PC){0,60}",
    ) {
        let mut end = 0;
        for sentence in sentences(&text) {
            let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
            prop_assert!(start >= end && text[end..start].chars().all(char::is_whitespace));
            prop_assert!(!sentence.is_empty() && sentence == sentence.trim());
            end = start + sentence.len();
        }
        prop_assert!(text[end..].trim().is_empty());
    }
}
