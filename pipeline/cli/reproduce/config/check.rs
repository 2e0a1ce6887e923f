//! What the sections of a reproduction have to do with each other.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::reader::ModelFamily;
use corpus::tokenizer;
use evaluation::{EvalConfig, wikitext103};
use training::architecture::Architecture;
use training::config::{BertSection, ModelConfig};

use super::data::{ContaminationSection, DecontaminationSection};
use super::{Experiment, ReproduceConfig, SizeSection};
use crate::exit::Usage;
use crate::reproduce::eval_task;
use crate::reproduce::report::table3::{PaperRow, Task};

impl ReproduceConfig {
    /// Checks what the sections have to do with each other, and takes the vocabulary from the
    /// tokenizer where a model does not write it down.
    ///
    /// # Errors
    ///
    /// Wrong usage, with the key.
    pub(in super::super) fn checked(mut self) -> anyhow::Result<Self> {
        self.check_corpus()?;
        self.check_names()?;
        self.check_sections()?;
        let positive = |number: f64| number.is_finite() && number > 0.0;
        if !positive(self.limits.max_days) {
            bail!(Usage(anyhow!("limits.max_days = {}: must be above 0", self.limits.max_days)));
        }
        self.contamination.check()?;
        let vocabulary = tokenizer::open(&self.data.tokenizer).context("data.tokenizer")?;
        if self.experiment.model_family() == ModelFamily::Bert {
            vocabulary.masked_vocabulary().context("data.tokenizer")?;
        }
        let vocabulary = NonZeroUsize::new(vocabulary.vocab_size());
        // What is wrong with it does not depend on where the text and the test sets lie.
        let test_sets = self.experiment.tasks().iter().map(|_| PathBuf::new());
        let data = self.curation_config(Path::new(""), test_sets.collect());
        data.validate().context("[data]")?;
        for size in &mut self.sizes {
            let written = size.vocab_size_mut();
            *written = written.or(vocabulary);
        }
        self.check_alike()?;
        for size in &self.sizes {
            self.check_size(size).with_context(|| format!("size {}", size.name))?;
        }
        Ok(self)
    }

    /// A size can be trained, and evaluated once it is.
    fn check_size(&self, size: &SizeSection) -> anyhow::Result<()> {
        self.train_config(size).summary()?;
        let any = 1_000; // what is wrong does not depend on how many questions there are
        if let Some(tuned) = self.planned_fine_tune_config(size, any) {
            tuned.summary().context("[finetune]")?;
        }
        let Some(model) = size.gpt2() else { return Ok(()) };
        let model = Architecture::Gpt2(model.with_vocab_size(size.vocab_size()));
        let task = eval_task(Task::WikiText103, wikitext103::NAME, PathBuf::new());
        let plan = self.eval.clone().validate(PathBuf::new(), vec![task])?;
        plan.check(&model)?;
        model.check_tensor_parallel(plan.tensor_parallel_size.get())?;
        Ok(())
    }

    /// Models are those of the experiment, and no section is there that it has no use for.
    fn check_sections(&self) -> anyhow::Result<()> {
        let wanted = match self.experiment {
            Experiment::Table3 => "gpt2",
            Experiment::Figure7 | Experiment::Race => "bert",
        };
        for SizeSection { name, model, .. } in &self.sizes {
            let found = match model {
                ModelConfig::Gpt2(_) => "gpt2",
                ModelConfig::Bert(_) => "bert",
            };
            if found != wanted {
                bail!(Usage(anyhow!(
                    "size {name:?}: [size.model.{found}] is no model of the experiment {}: it \
                     takes [size.model.{wanted}]",
                    self.experiment.name()
                )));
            }
        }
        if self.finetune.is_some() && self.experiment != Experiment::Race {
            bail!(Usage(anyhow!(
                "[finetune] is of no use in the experiment {}: leave it out",
                self.experiment.name()
            )));
        }
        match self.experiment {
            Experiment::Table3 => Ok(()),
            Experiment::Figure7 => {
                self.check_without_test_sets().and_then(|()| self.check_figure7())
            }
            Experiment::Race => self.check_without_test_sets().and_then(|()| self.check_race()),
        }
    }

    /// Without test sets nothing is kept out of the corpus or measured in it, and no text is scored.
    fn check_without_test_sets(&self) -> anyhow::Result<()> {
        let alike = match self.experiment {
            // Scored are questions, in no windows.
            Experiment::Race => EvalConfig {
                overlap: EvalConfig::default().overlap,
                split_weights: None,
                ..self.eval.clone()
            },
            // --tp sets it for all experiments.
            _ => EvalConfig {
                tensor_parallel_size: self.eval.tensor_parallel_size,
                ..Default::default()
            },
        };
        let unused = [
            (
                "data.decontamination",
                self.data.decontamination != DecontaminationSection::default(),
            ),
            ("contamination", self.contamination != ContaminationSection::default()),
            ("eval", self.eval != alike),
        ];
        if let Some((section, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
            bail!(Usage(anyhow!(
                "[{section}] is of no use in the experiment {}, which scores its models on no text: \
                 leave it out, or what of it is given",
                self.experiment.name()
            )));
        }
        Ok(())
    }

    /// Every size is fine-tuned, once from each seed.
    fn check_race(&self) -> anyhow::Result<()> {
        let Some(finetune) = &self.finetune else {
            bail!(Usage(anyhow!(
                "[finetune] is not given: the experiment race fine-tunes what it has pre-trained"
            )));
        };
        if finetune.seeds.is_empty() {
            bail!(Usage(anyhow!("finetune.seeds = []: give one at least; the paper has five")));
        }
        let mut seen = HashSet::new();
        if let Some(seed) = finetune.seeds.iter().find(|seed| !seen.insert(**seed)) {
            bail!(Usage(anyhow!(
                "finetune.seeds: {seed} is there twice, and gives the same model each time"
            )));
        }
        Ok(())
    }

    /// Runs are told apart by arrangement and depth.
    fn check_figure7(&self) -> anyhow::Result<()> {
        if self.train.validation.is_none() {
            bail!(Usage(anyhow!(
                "[train.validation] is not given: figure 7 compares losses on held-out documents"
            )));
        }
        let berts = || self.sizes.iter().filter_map(|size| Some((&size.name, size.bert()?)));
        let kind = |section: &BertSection| (section.arrangement, section.num_layers);
        let mut seen: Vec<(&String, &BertSection)> = Vec::new();
        for (name, section) in berts() {
            if let Some((other, _)) = seen.iter().find(|(_, it)| kind(it) == kind(section)) {
                bail!(Usage(anyhow!(
                    "sizes {other:?} and {name:?} have the same arrangement and num_layers: figure \
                     7 compares one model of each"
                )));
            }
            let alike = |it: &BertSection| {
                let mut it = it.clone();
                (it.arrangement, it.num_layers) = kind(section);
                it == *section
            };
            if let Some((other, _)) = seen.first().filter(|(_, it)| !alike(it)) {
                bail!(Usage(anyhow!(
                    "sizes {other:?} and {name:?} differ in more than arrangement and num_layers: \
                     what tells their losses apart would not be known"
                )));
            }
            seen.push((name, section));
        }
        Ok(())
    }

    /// Either the machine's text or a corpus of sources.
    fn check_corpus(&self) -> anyhow::Result<()> {
        match (&self.text, self.data.sources.is_empty()) {
            (Some(_), false) => bail!(Usage(anyhow!(
                "[text] and [[data.source]] are both given: a corpus is made of one of them"
            ))),
            (None, true) => bail!(Usage(anyhow!(
                "neither [text] nor [[data.source]] is given: add [text] for text that the machine \
                 has"
            ))),
            _ => Ok(()),
        }
    }

    /// Names of sizes are those of files, and each stands for one; rows are the paper's.
    fn check_names(&self) -> anyhow::Result<()> {
        if self.sizes.is_empty() {
            bail!(Usage(anyhow!("no [[size]] is given: add one with its name and model")));
        }
        let mut names = HashSet::new();
        for SizeSection { name, paper, .. } in &self.sizes {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(is_plain)
            {
                bail!(Usage(anyhow!(
                    "size {name:?}: it is the name of a folder, so it takes letters, digits, `-`, \
                     `_` and `.`, and begins with a letter or a digit"
                )));
            }
            if !names.insert(name.to_lowercase()) {
                bail!(Usage(anyhow!("size {name:?} is given twice: give each a name of its own")));
            }
            if paper.is_some() && self.experiment != Experiment::Table3 {
                bail!(Usage(anyhow!(
                    "size {name:?}: paper is a row of Table 3, which is not this experiment: leave \
                     it out"
                )));
            }
            let rows = PaperRow::table3();
            let rows: Vec<_> = rows.iter().filter(|row| row.megatron).collect();
            if let Some(paper) = paper
                && !rows.iter().any(|row| row.name == *paper)
            {
                let rows: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
                bail!(Usage(anyhow!(
                    "size {name:?}: paper = {paper:?} is no row of the paper's Table 3; allowed: {}",
                    rows.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Sizes that see other tokens, or count them by another vocabulary, do not compare.
    fn check_alike(&self) -> anyhow::Result<()> {
        let shape = |size: &SizeSection| (size.seq_length(), size.vocab_size());
        let first = &self.sizes[0];
        if let Some(other) = self.sizes.iter().find(|size| shape(size) != shape(first)) {
            bail!(Usage(anyhow!(
                "sizes {:?} and {:?} differ in seq_length or vocab_size: they would not see the \
                 same samples",
                first.name,
                other.name
            )));
        }
        Ok(())
    }
}
