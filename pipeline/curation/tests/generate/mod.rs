//! Generated texts for tests and benchmarks: the same for the same seed.

#![allow(dead_code, reason = "each test binary uses a part")]

/// Steele, Lea and Flood's SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    /// A generator whose numbers depend on `seed` alone.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to `limit - 1`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    /// A word of a vocabulary of 20,000; the first ones are the more frequent, as in language.
    pub(crate) fn word(&mut self) -> String {
        const SYLLABLES: [&str; 20] = [
            "ta", "re", "in", "so", "ment", "con", "al", "de", "ing", "per", "to", "li", "on",
            "est", "ver", "a", "qui", "eth", "mo", "ur",
        ];
        let mut rank = self.below(20_000) * self.below(20_000) / 20_000;
        let mut word = String::new();
        loop {
            word.push_str(SYLLABLES[rank % 20]);
            rank /= 20;
            if rank == 0 {
                return word;
            }
        }
    }

    /// `count` words.
    pub(crate) fn words(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.word()).collect()
    }

    /// `words` with `count` places overwritten by other words.
    pub(crate) fn edited(&mut self, words: &[String], count: usize) -> Vec<String> {
        let mut words = words.to_vec();
        if !words.is_empty() {
            for _ in 0..count {
                let place = self.below(words.len());
                words[place] = self.word();
            }
        }
        words
    }
}

/// `count` documents of 200 to 3,000 words, of which every tenth is an edited copy of an earlier
/// one.
pub(crate) fn documents(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut documents: Vec<Vec<String>> = Vec::with_capacity(count);
    for number in 0..count {
        let words = if number % 10 == 9 {
            let original = &documents[random.below(number)];
            let edits = 1 + original.len() / 60;
            random.edited(original, edits)
        } else {
            let length = 200 + random.below(2_800);
            random.words(length)
        };
        documents.push(words);
    }
    documents.iter().map(|words| words.join(" ")).collect()
}

/// `count` documents with a common header of 240 words and 160 words of their own: similarities of
/// about 0.43.
pub(crate) fn boilerplate(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random::new(seed);
    let header = random.words(240).join(" ");
    (0..count).map(|_| format!("{header} {}", random.words(160).join(" "))).collect()
}
