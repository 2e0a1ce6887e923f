//! The report in the terminal.

use super::super::Layout;
use super::super::date::readable;
use super::super::ground::described;
use super::super::numerals::{figures as three_figures, loss, or_dash, perplexity, short};
use super::super::words::listed;
use super::Figure7Report;
use super::facts::Run;

impl Figure7Report {
    /// The report as text, laid out by `layout`: the losses, what follows from them, and what they
    /// rest on.
    pub(crate) fn table(&self, layout: Layout) -> String {
        let ground = &self.found.ground;
        let date = readable(&ground.date);
        let mut text = format!("{} ({}, {date})\n", ground.title, ground.experiment);
        text.extend(self.partial_sentence().map(|it| format!("{it}\n")));
        text.push('\n');
        text.push_str(&layout(&self.run_rows()));
        text.push_str(&format!("\n{}\n", self.finding_sentence()));
        for statement in &self.statements {
            let (claim, label) = (statement.sentence(), statement.label());
            text.push_str(&format!("  {label}: {claim} ({})\n", statement.reason()));
        }
        text.push('\n');
        let lines = ground.text_lines().into_iter().chain(ground.machine_lines());
        text.push_str(&layout(&described(lines.collect())));
        if !self.cautions.is_empty() {
            text.push('\n');
            text.extend(self.cautions.iter().map(|caution| format!("note: {caution}\n")));
        }
        text
    }

    fn run_rows(&self) -> Vec<Vec<String>> {
        let header = [
            "model",
            "arrangement",
            "layers",
            "parameters",
            "tokens seen",
            "training loss",
            "validation loss",
            "perplexity",
            "largest grad norm",
        ];
        let row = |run: &Run| {
            let end = |text: fn(f64) -> String, value: Option<f64>| match run.diverged_at {
                Some(_) => "diverged".to_owned(),
                None => or_dash(value, text),
            };
            vec![
                run.name.clone(),
                run.arrangement.name().to_owned(),
                run.model.num_layers.to_string(),
                short(run.parameters as f64),
                short(run.training.tokens as f64),
                end(loss, run.training.final_loss),
                end(loss, run.training.validation_loss),
                end(perplexity, run.validation_perplexity()),
                or_dash(run.largest_grad_norm, three_figures),
            ]
        };
        let header = header.map(str::to_owned).to_vec();
        [header].into_iter().chain(self.found.runs.iter().map(row)).collect()
    }

    /// Why the report is partial; none where it is whole.
    pub(super) fn partial_sentence(&self) -> Option<String> {
        let missing = listed(&self.found.ground.missing_parts(), "and");
        self.partial
            .then(|| format!("PARTIAL; not done: {missing}. Compare these numbers with no other."))
    }

    /// What was found, in a sentence.
    pub(super) fn finding_sentence(&self) -> String {
        let count = |holds| self.statements.iter().filter(|it| it.holds == holds).count();
        let (all, hold, fail) = (self.statements.len(), count(Some(true)), count(Some(false)));
        match (hold, fail) {
            (_, 0) if hold == all => {
                "What the paper found holds at this size: rearranged, BERT gets better with depth, \
                 and better than the original arrangement."
                    .to_owned()
            }
            (0, 0) => {
                "What the paper found cannot be judged: runs are lacking, or their losses too close."
                    .to_owned()
            }
            _ => format!(
                "Of {all} statements of the paper's {hold} hold at this size, {fail} do NOT, and {} \
                 cannot be told.",
                all - hold - fail
            ),
        }
    }
}
