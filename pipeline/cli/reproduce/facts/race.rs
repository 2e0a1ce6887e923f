//! What was found on RACE.

use anyhow::Context;
use corpus::race::RaceSplit;
use evaluation::race::{CHANCE, Ensemble, LevelAccuracy, Predictions};

use super::super::journal::Journal;
use super::super::parts::{Part, Parts};
use super::super::report::Ground;
use super::super::report::race::{Accuracies, Accuracy, FineTuned, Race, RaceModel, paper_models};
use super::{field, result, runs};

/// All that was found, on `ground`.
///
/// # Errors
///
/// Where the output of a part cannot be read.
pub(super) fn gather(parts: &Parts<'_>, journal: &Journal, ground: Ground) -> anyhow::Result<Race> {
    let race = parts.inputs.race.as_ref().context("RACE is not given")?;
    let models = (0..parts.config.sizes.len()).map(|size| model(parts, journal, size));
    Ok(Race {
        ground,
        data: race.path.display().to_string(),
        questions: RaceSplit::ALL.map(|split| race.split(split).questions),
        test_questions_article_cut: article_cut(parts, journal)?,
        chance: CHANCE,
        models: models.collect::<Result<_, _>>()?,
        paper: paper_models(),
    })
}

/// Test questions whose article was cut: the same for all models, which see as many tokens.
fn article_cut(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<u64> {
    let part = Part::Race { size: 0, seed: 0, split: RaceSplit::Test };
    let counts = &result(parts, journal, part)?["counts"];
    let of_level = |level: &str| field::<u64>(counts, &format!("{level}_questions_article_cut"));
    Ok(of_level("middle")? + of_level("high")?)
}

fn model(parts: &Parts<'_>, journal: &Journal, size: usize) -> anyhow::Result<RaceModel> {
    let (shape, parameters) = runs::model(parts, journal, size)?;
    let pretraining = runs::training(parts, journal, size)?;
    let [dev, test] = [RaceSplit::Dev, RaceSplit::Test].map(|split| answers(parts, size, split));
    let (dev, test) = (dev?, test?);
    let [ensemble_dev, ensemble_test] = [&dev, &test].map(|answers| Ensemble::of(answers));
    let (ensemble_dev, ensemble_test) = (ensemble_dev?, ensemble_test?);
    let median = ensemble_dev.median();
    let median = ensemble_dev.members.iter().position(|member| member == median);
    let seeds = dev.iter().zip(&test).enumerate();
    let seeds = seeds.map(|(seed, (dev, test))| {
        fine_tuned(parts, journal, (size, seed), [dev.accuracy(), test.accuracy()])
    });
    Ok(RaceModel {
        name: parts.size(size).to_owned(),
        model: shape,
        parameters,
        pretraining_tokens: pretraining.tokens,
        pretraining_validation_loss: pretraining.validation_loss,
        pretraining_seconds: pretraining.seconds,
        seeds: seeds.collect::<Result<_, _>>()?,
        median_seed: parts.seed(median.context("the median is one of the models")?),
        ensemble_dev: accuracies(ensemble_dev.accuracy()),
        ensemble_test: accuracies(ensemble_test.accuracy()),
    })
}

/// What the models of all seeds answered to the questions of a split.
fn answers(parts: &Parts<'_>, size: usize, split: RaceSplit) -> anyhow::Result<Vec<Predictions>> {
    let of_seed = |seed: usize| {
        let [_, items, _] = parts.race_files(size, seed, split);
        let path = parts.out.join(items);
        let read = Predictions::read(&path)?;
        read.into_iter().next().with_context(|| format!("{} holds no answers", path.display()))
    };
    (0..parts.config.seeds().len()).map(of_seed).collect()
}

fn fine_tuned(
    parts: &Parts<'_>,
    journal: &Journal,
    (size, seed): (usize, usize),
    [dev, test]: [LevelAccuracy; 2],
) -> anyhow::Result<FineTuned> {
    let trained = result(parts, journal, Part::FineTune { size, seed })?;
    let seconds = |part| journal.entry(&parts.key(part)).map_or(0.0, |entry: &_| entry.seconds);
    let scoring = [RaceSplit::Dev, RaceSplit::Test];
    let scoring = scoring.map(|split| seconds(Part::Race { size, seed, split }));
    Ok(FineTuned {
        seed: parts.seed(seed),
        steps: field(trained, "steps")?,
        final_loss: field(trained, "final_loss")?,
        dev: accuracies(dev),
        test: accuracies(test),
        seconds: seconds(Part::FineTune { size, seed }),
        scoring_seconds: scoring.into_iter().sum(),
    })
}

fn accuracies(found: LevelAccuracy) -> Accuracies {
    let of = |accuracy: evaluation::Accuracy| Accuracy {
        accuracy: accuracy.value(),
        stderr: accuracy.standard_error(),
        questions: accuracy.items,
    };
    let level = |accuracy: evaluation::Accuracy| (accuracy.items > 0).then(|| of(accuracy));
    Accuracies { overall: of(found.all()), middle: level(found.middle), high: level(found.high) }
}
