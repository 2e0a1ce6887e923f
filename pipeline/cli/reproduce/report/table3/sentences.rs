//! What the verdicts say, in sentences: the same in the terminal and on the page.

use super::super::numerals::{grouped, loss, percent, perplexity, rounded};
use super::super::words::listed;
use super::Table3Report;
use super::facts::{ScoreState, Size, Table3, Task, TestSet};
use super::verdict::{Comparison, Metric, Outcome, Pair, Trend, Verdict};

impl Task {
    /// The benchmark's name.
    pub(crate) fn benchmark(self) -> &'static str {
        match self {
            Self::WikiText103 => "WikiText103",
            Self::Lambada => "LAMBADA",
        }
    }
}

impl Metric {
    /// The test set it is of; none for one of the corpus's own documents.
    pub(super) fn task(self) -> Option<Task> {
        match self {
            Self::ValidationLoss => None,
            Self::WordPerplexity => Some(Task::WikiText103),
            Self::TargetPerplexity | Self::StrictAccuracy => Some(Task::Lambada),
        }
    }

    /// What is measured.
    pub(super) fn quantity(self) -> &'static str {
        match self {
            Self::ValidationLoss => "validation loss",
            Self::WordPerplexity => "word perplexity",
            Self::TargetPerplexity => "target perplexity",
            Self::StrictAccuracy => "strict accuracy",
        }
    }

    /// The same for the head of a narrow column, below the name of the test set.
    pub(super) fn short_name(self) -> &'static str {
        match self {
            Self::ValidationLoss => "loss",
            Self::WordPerplexity => "word ppl",
            Self::TargetPerplexity => "target ppl",
            Self::StrictAccuracy => "strict acc",
        }
    }

    /// A value of it.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::ValidationLoss => loss(value),
            Self::WordPerplexity | Self::TargetPerplexity => perplexity(value),
            Self::StrictAccuracy => percent(value),
        }
    }

    /// The value for `size`, said to be a bound where it is one.
    pub(super) fn text_of(self, size: &Size) -> Option<String> {
        let is_bound = self == Self::WordPerplexity
            && size.wikitext103.as_ref().is_some_and(|score| score.capped);
        let text = self.text(self.of(size)?);
        Some(if is_bound { format!("at least {text}") } else { text })
    }
}

impl Table3 {
    /// What `task` was measured on: the benchmark's name for its published test set only.
    pub(super) fn name_of(&self, task: Task) -> String {
        match self.test_set(task) {
            Some(TestSet { published: false, name, .. }) => name.clone(),
            _ => task.benchmark().to_owned(),
        }
    }

    /// A metric by its name and that of its test set.
    pub(super) fn metric_name(&self, metric: Metric) -> String {
        match metric.task() {
            None => metric.quantity().to_owned(),
            Some(task) => format!("{} {}", self.name_of(task), metric.quantity()),
        }
    }

    /// What a reader should know before the numbers: what was found by the way, and what the
    /// numbers themselves say.
    pub(super) fn cautions(&self) -> Vec<String> {
        let mut cautions = self.ground.warnings.clone();
        cautions.extend(self.test_sets.iter().filter(|it| !it.published).map(|test_set| {
            let benchmark = test_set.task.benchmark();
            format!(
                "{} is not the published test set of {benchmark}: its numbers compare with those \
                 of this page only.",
                test_set.name
            )
        }));
        cautions.extend(self.unlike_training());
        for size in &self.sizes {
            let vocabulary = size.model.vocab_size as f64;
            if let Some(score) = &size.wikitext103
                && score.token_perplexity > vocabulary
            {
                cautions.push(format!(
                    "{}: a token perplexity of {} is worse than guessing among all {} tokens.",
                    size.name,
                    perplexity(score.token_perplexity),
                    grouped(size.model.vocab_size as u64)
                ));
            }
            let Some(score) = &size.lambada else { continue };
            let uniform = score.uniform_target_perplexity(size.model.vocab_size);
            if score.target_perplexity.is_infinite() {
                cautions.push(format!(
                    "{}: its target perplexity is beyond all numbers, so it stands in no comparison.",
                    size.name
                ));
            } else if score.target_perplexity > uniform {
                cautions.push(format!(
                    "{}: a target perplexity of {} is worse than the {} of guessing among all tokens \
                     alike.",
                    size.name,
                    perplexity(score.target_perplexity),
                    perplexity(uniform)
                ));
            }
        }
        cautions
    }

    /// A sentence where sizes were not trained alike, so that more than their size tells them
    /// apart.
    fn unlike_training(&self) -> Option<String> {
        let differs =
            |of: fn(&Size) -> u64| self.sizes.windows(2).any(|pair| of(&pair[0]) != of(&pair[1]));
        let differences: Vec<_> = [
            ("tokens seen", differs(|size| size.training.tokens)),
            ("sequences of a step", differs(|size| size.training.global_batch_size as u64)),
            ("sequence length", differs(|size| size.model.seq_length as u64)),
            ("vocabulary", differs(|size| size.model.vocab_size as u64)),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect();
        (!differences.is_empty()).then(|| {
            format!(
                "The sizes were not trained alike: they differ in {}.",
                listed(&differences, "and")
            )
        })
    }
}

impl Table3Report {
    /// Why the report is partial; none where it is whole.
    pub(super) fn partial_sentence(&self) -> Option<String> {
        if !self.partial {
            return None;
        }
        let mut reasons = Vec::new();
        let missing = self.found.ground.missing_parts();
        if !missing.is_empty() {
            reasons.push(format!("not done: {}", listed(&missing, "and")));
        }
        for task in [Task::WikiText103, Task::Lambada] {
            let name = self.found.name_of(task);
            for (state, text) in [
                (ScoreState::Missing, "not measured on"),
                (ScoreState::Partial, "measured on a part only of"),
            ] {
                let sizes =
                    self.found.sizes.iter().filter(|it| self.found.state(it, task) == state);
                let sizes: Vec<_> = sizes.map(|size| size.name.as_str()).collect();
                if !sizes.is_empty() {
                    reasons.push(format!("{text} {name}: {}", listed(&sizes, "and")));
                }
            }
        }
        Some(format!("PARTIAL; {}. Compare these numbers with no other.", reasons.join("; ")))
    }

    /// What the trends say in one sentence.
    pub(super) fn trend_sentence(&self) -> String {
        let named = |verdict| -> Vec<String> {
            self.trends
                .iter()
                .filter(|trend| trend.verdict == verdict)
                .map(|trend| self.found.metric_name(trend.metric))
                .collect()
        };
        let [better, undecided, not_better] =
            [Verdict::Better, Verdict::Undecided, Verdict::NotBetter].map(named);
        let mut sentences = Vec::new();
        if !not_better.is_empty() {
            sentences.push(format!("Bigger is NOT better by {}.", listed(&not_better, "and")));
        }
        if !better.is_empty() {
            sentences.push(format!("Bigger is better by {}.", listed(&better, "and")));
        }
        if !undecided.is_empty() {
            sentences.push(format!(
                "By {} the test set can show no difference between some sizes.",
                listed(&undecided, "and")
            ));
        }
        if sentences.is_empty() {
            return "Whether bigger is better cannot be said: no two sizes were measured alike."
                .to_owned();
        }
        sentences.join(" ")
    }

    /// How the whole stands to the paper's table, in one sentence; none where it has no values.
    pub(super) fn paper_sentence(&self) -> Option<String> {
        let measured: Vec<_> =
            self.comparisons.iter().filter(|it| it.outcome != Outcome::NotMeasured).collect();
        let of = |outcome: fn(&Outcome) -> bool| {
            measured.iter().filter(|it| outcome(&it.outcome)).count()
        };
        let reproduced = of(|it| *it == Outcome::Reproduced);
        let missed = of(|it| *it == Outcome::NotReproduced);
        let other_scale = measured.len() - reproduced - missed;
        let last = measured.last()?;
        if other_scale == measured.len() {
            let reason = last.reason();
            return Some(format!(
                "The paper's Table 3 is not reproduced at this scale: beside the paper's {}, \
                 {reason}.",
                last.paper_row
            ));
        }
        let mut parts = vec![format!("{reproduced} reproduced")];
        if missed > 0 {
            parts.push(format!("{missed} not reproduced at the paper's own scale"));
        }
        if other_scale > 0 {
            parts.push(format!("{other_scale} not reproduced at this scale"));
        }
        Some(format!(
            "Of {} values of the paper's Table 3 that stand beside ours: {}.",
            measured.len(),
            listed(&parts, "and")
        ))
    }
}

impl Trend {
    /// The verdict in two words or so.
    pub(super) fn label(&self) -> &'static str {
        match self.verdict {
            Verdict::Better => "bigger is better",
            Verdict::Undecided => "undecided",
            Verdict::NotBetter => "bigger is NOT better",
            Verdict::TooFew => "nothing to compare",
        }
    }

    /// What the verdict rests on.
    pub(super) fn reason(&self) -> String {
        let text = |value| self.metric.text(value);
        let pairs = |pairs: &[Pair], sentence: &dyn Fn(&Pair) -> String| {
            pairs.iter().map(sentence).collect::<Vec<_>>().join("; ")
        };
        let mut reasons = Vec::new();
        match self.verdict {
            Verdict::Better => reasons.push("so in every pair of sizes".to_owned()),
            Verdict::TooFew => reasons.push(match self.sizes {
                0 => "no size has a value".to_owned(),
                _ => "no two sizes that differ have a value".to_owned(),
            }),
            Verdict::Undecided | Verdict::NotBetter => {}
        }
        if !self.worse.is_empty() {
            reasons.push(pairs(&self.worse, &|pair| {
                let Pair { smaller, bigger, smaller_value, bigger_value } = pair;
                let values = [*bigger_value, *smaller_value].map(text);
                format!("{bigger} with {} is worse than {smaller} with {}", values[0], values[1])
            }));
        }
        if !self.equal.is_empty() && self.equal.len() == self.sizes * (self.sizes - 1) / 2 {
            reasons.push("no two sizes differ by more than the test set can show".to_owned());
        } else if !self.equal.is_empty() {
            let equal = pairs(&self.equal, &|pair| {
                let Pair { smaller, bigger, smaller_value, bigger_value } = pair;
                let values = [*smaller_value, *bigger_value].map(text);
                format!("{smaller} with {} and {bigger} with {}", values[0], values[1])
            });
            reasons.push(format!("no difference that the test set can show between {equal}"));
        }
        reasons.join("; ")
    }
}

impl Comparison {
    /// The outcome as it is called.
    pub(super) fn label(&self) -> &'static str {
        match self.outcome {
            Outcome::Reproduced => "reproduced",
            Outcome::NotReproduced => "not reproduced",
            Outcome::NotAtThisScale { .. } => "not reproduced at this scale",
            Outcome::NotMeasured => "not measured",
        }
    }

    /// What the outcome rests on, as the end of a sentence.
    pub(super) fn reason(&self) -> String {
        let size = self.size.as_deref().unwrap_or("no size");
        let Outcome::NotAtThisScale {
            times_parameters,
            times_tokens,
            published_test_set,
            whole_test_set,
            paper_windows,
        } = self.outcome
        else {
            return match self.outcome {
                Outcome::Reproduced => {
                    format!("{size} is of the paper's scale, and at most 5% worse")
                }
                Outcome::NotMeasured => "there is no value of ours".to_owned(),
                _ => format!("{size} is of the paper's scale, and more than 5% worse"),
            };
        };
        let mut reasons = Vec::new();
        let share = |times: f64, what: &str| match times > 1.0 {
            true => format!("1/{} of the {what}", rounded(times)),
            false => format!("{} times the {what}", rounded(1.0 / times)),
        };
        match (times_parameters, times_tokens) {
            (Some(parameters), Some(tokens)) => {
                let together = match parameters > 1.0 && tokens > 1.0 {
                    true => {
                        format!(
                            ", together smaller by a factor of {}",
                            rounded(parameters * tokens)
                        )
                    }
                    false => String::new(),
                };
                reasons.push(format!(
                    "{size} has {} and saw {}{together}",
                    share(parameters, "parameters"),
                    share(tokens, "tokens")
                ));
            }
            (Some(parameters), None) => {
                reasons.push(format!("{size} has {}", share(parameters, "parameters")));
            }
            (None, Some(tokens)) => {
                reasons.push(format!("{size} saw {}", share(tokens, "tokens")));
            }
            // Told where nothing else keeps the two apart: by it they differ least.
            (None, None) if !paper_windows => reasons
                .push("its windows or their overlap are not the paper's 1,024 and 32".to_owned()),
            (None, None) => {}
        }
        if !whole_test_set {
            reasons.push("only a part of the test set was scored".to_owned());
        }
        if !published_test_set {
            reasons.push("the test set is not the published one".to_owned());
        }
        reasons.join(", and ")
    }
}
