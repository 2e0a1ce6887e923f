//! English abbreviations, by what may come after their full stop.

/// What a word with a full stop may be short for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abbreviation {
    /// Followed by what it belongs to, as a title by a name: ends no sentence.
    Leading,
    /// Followed by a number; before anything else it is a word like others.
    Numbered,
    /// Ends sentences as well as not.
    Closing,
}

/// Titles, and what introduces something. Sorted.
const LEADING: &[&str] = &[
    "adm", "approx", "atty", "brig", "ca", "capt", "cf", "cmdr", "col", "comdr", "cpl", "dr",
    "e.g", "eg", "esp", "fr", "gen", "gov", "hon", "i.e", "ie", "incl", "insp", "lt", "maj",
    "messrs", "mlle", "mme", "mr", "mrs", "ms", "mt", "mx", "msgr", "pfc", "pres", "prof", "pvt",
    "rep", "reps", "rev", "rt", "sen", "sens", "sgt", "sr", "st", "ste", "supt", "viz", "vs",
];

/// What numbers are counted by. Sorted.
const NUMBERED: &[&str] = &[
    "app", "art", "bk", "ch", "chap", "chs", "col", "eq", "eqs", "ex", "fig", "figs", "fol", "ft",
    "no", "nos", "nr", "op", "p", "par", "pg", "pp", "pt", "ref", "refs", "sec", "sect", "tab",
    "v", "ver", "vol", "vols",
];

/// What stands at the end of names, lists and dates, and of sentences. Sorted.
const CLOSING: &[&str] = &[
    "al", "apr", "assn", "aug", "ave", "bldg", "blvd", "bros", "cie", "co", "corp", "ct", "dec",
    "dept", "dist", "div", "ed", "eds", "esq", "est", "etc", "feb", "ft", "govt", "hr", "hrs",
    "hwy", "ibid", "in", "inc", "jan", "jr", "jul", "jun", "lb", "lbs", "ltd", "mar", "mfg", "min",
    "mins", "mon", "nov", "oct", "oz", "ph.d", "phd", "plc", "pty", "rd", "sat", "sept", "sep",
    "sq", "sun", "thu", "thur", "thurs", "tue", "tues", "trans", "univ", "wed", "wk", "yd", "yr",
    "yrs",
];

/// Words that are no abbreviation in running text but for a number behind them, or a capital.
const ONLY_CAPITALIZED: &[&str] = &[
    "ave", "dec", "ed", "fr", "gen", "in", "jan", "mar", "min", "mon", "oct", "rep", "sat", "sun",
    "wed",
];

/// Words that sentences begin with often, and names seldom. Sorted.
const BEGINNINGS: &[&str] = &[
    "A",
    "About",
    "According",
    "After",
    "All",
    "Although",
    "An",
    "And",
    "Another",
    "Are",
    "As",
    "At",
    "Because",
    "Before",
    "Both",
    "But",
    "By",
    "Can",
    "Did",
    "Do",
    "Does",
    "During",
    "Each",
    "Even",
    "Every",
    "Finally",
    "First",
    "For",
    "From",
    "Had",
    "Has",
    "Have",
    "He",
    "Her",
    "Here",
    "His",
    "How",
    "However",
    "I",
    "If",
    "In",
    "Instead",
    "Is",
    "It",
    "Its",
    "Later",
    "Many",
    "Meanwhile",
    "More",
    "Most",
    "My",
    "No",
    "Not",
    "Now",
    "Of",
    "On",
    "Once",
    "One",
    "Only",
    "Or",
    "Our",
    "Several",
    "She",
    "Since",
    "So",
    "Some",
    "Still",
    "Such",
    "That",
    "The",
    "Their",
    "Then",
    "There",
    "These",
    "They",
    "This",
    "Those",
    "Though",
    "Through",
    "Thus",
    "To",
    "Today",
    "Two",
    "Under",
    "Until",
    "Was",
    "We",
    "Were",
    "What",
    "When",
    "Where",
    "Which",
    "While",
    "Who",
    "Why",
    "With",
    "Yet",
    "You",
    "Your",
];

impl Abbreviation {
    /// That of `word`, which stood before a full stop; `None` where it is a word.
    pub(super) fn of(word: &str) -> Option<Self> {
        let mut letters = word.chars();
        if let (Some(letter), None) = (letters.next(), letters.next())
            && letter.is_alphabetic()
        {
            // An initial; of small letters, only what numbers are counted by.
            let numbered = matches!(letter, 'p' | 'v').then_some(Self::Numbered);
            return if letter.is_uppercase() { Some(Self::Leading) } else { numbered };
        }
        let lower = word.to_lowercase();
        let lower = lower.as_str();
        let is_in = |list: &[&str]| list.contains(&lower);
        let is_capitalized = word.starts_with(char::is_uppercase);
        if is_in(ONLY_CAPITALIZED) && !is_capitalized {
            return None;
        }
        if is_in(LEADING) {
            return Some(Self::Leading);
        }
        if is_in(NUMBERED) {
            return Some(Self::Numbered);
        }
        let is_dotted = lower.contains('.')
            && lower.split('.').all(|part| {
                part.chars().count() <= 2
                    && !part.is_empty()
                    && part.chars().all(char::is_alphabetic)
            });
        (is_in(CLOSING) || is_dotted).then_some(Self::Closing)
    }
}

/// Whether `word` begins sentences more often than it goes on with a name.
pub(super) fn begins_sentences(word: &str) -> bool {
    BEGINNINGS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_sorted_for_the_search() {
        assert!(BEGINNINGS.is_sorted());
    }
}
