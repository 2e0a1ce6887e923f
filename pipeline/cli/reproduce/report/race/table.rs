//! The report in the terminal.

use super::super::Layout;
use super::super::date::readable;
use super::super::ground::described;
use super::super::numerals::{grouped, percent};
use super::RaceReport;
use super::facts::Accuracies;

impl RaceReport {
    /// The report as text, laid out by `layout`: accuracies beside the paper's, and what they rest
    /// on.
    pub(crate) fn table(&self, layout: Layout) -> String {
        let found = &self.found;
        let ground = &found.ground;
        let date = readable(&ground.date);
        let mut text = format!("{} ({}, {date})\n", ground.title, ground.experiment);
        text.extend(self.partial_sentence().map(|it| format!("{it}\n")));
        text.push('\n');
        text.push_str(&layout(&self.rows()));
        text.push_str(&format!("\n{}\n\n", self.finding_sentence()));
        let [train, dev, test] = found.questions.map(grouped);
        let race =
            format!("{}: {train} questions to train on, {dev} of dev, {test} of test", found.data);
        let lines = ground.text_lines().into_iter().chain([("RACE".to_owned(), race)]);
        text.push_str(&layout(&described(lines.chain(ground.machine_lines()).collect())));
        if !self.cautions.is_empty() {
            text.push('\n');
            text.extend(self.cautions.iter().map(|caution| format!("note: {caution}\n")));
        }
        text
    }

    /// Each seed, the ensembles, then the paper's.
    fn rows(&self) -> Vec<Vec<String>> {
        let header = ["model", "dev", "test", "middle", "high"].map(str::to_owned).to_vec();
        let mut rows = vec![header];
        let row = |name: String, dev: &Accuracies, test: &Accuracies| {
            [name, dev.overall.text()].into_iter().chain(test.texts()).collect()
        };
        for model in &self.found.models {
            for it in &model.seeds {
                let mark = if it.seed == model.median_seed { ", median of dev" } else { "" };
                rows.push(row(
                    format!("{}, seed {}{mark}", model.name, it.seed),
                    &it.dev,
                    &it.test,
                ));
            }
            let name = format!("{}, ensemble of {}", model.name, model.seeds.len());
            rows.push(row(name, &model.ensemble_dev, &model.ensemble_test));
        }
        let chance = percent(self.found.chance);
        rows.push(["chance", &chance, &chance, &chance, &chance].map(str::to_owned).to_vec());
        for paper in &self.found.paper {
            let kind = if paper.megatron { "paper" } else { "before" };
            let name = format!("{kind}: {}", paper.name);
            let shares = paper.accuracy.map(percent);
            rows.push([name, "-".to_owned()].into_iter().chain(shares).collect());
        }
        rows
    }
}
