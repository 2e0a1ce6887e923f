//! The data stage: raw documents in, a curated corpus of tokens out.
//!
//! [`curate()`] is the whole stage. It follows the cleaning of the Megatron-LM paper (Shoeybi et
//! al. 2019, section 4.1), in this order:
//!
//! 1. read every source ([`corpus::reader`]), in the order that all results follow, and mend
//!    wrongly decoded text where that is asked for ([`UnicodeRepair`]);
//! 2. drop documents that are empty, in a language that is not asked for or of fewer than 128
//!    tokens ([`filter`]);
//! 3. drop all but the first of equal texts ([`dedup::ExactIndex`]);
//! 4. drop documents that belong to a test set ([`decontaminate`]);
//! 5. drop near-duplicates, those with a Jaccard similarity above 0.7 to an earlier kept document
//!    ([`dedup`]);
//! 6. tokenize the rest into a memory-mapped shard ([`corpus::shard`]);
//! 7. write what became of every document ([`records`]), the counts ([`report`](CurationReport))
//!    and the manifest.
//!
//! Every document that goes is counted under its [reason](filter::DropReason) and listed with its
//! witness. No stage holds the corpus: documents, shingle sets and decisions lie in files of a
//! stage folder, from which a run that died goes on.

pub mod config;
mod contaminated;
mod curate;
pub mod decontaminate;
pub mod dedup;
mod documents;
mod error;
mod exact;
pub mod filter;
mod finish;
mod input;
mod key_hash;
mod lists;
mod memory;
mod near_duplicates;
mod outcomes;
mod read;
pub mod records;
mod repair;
pub mod report;
mod run;
mod signed_files;
mod stages;
mod stop;
mod summary;
mod tokenize;
mod verdicts;
mod word_hash;

pub use config::{CurationConfig, CurationPlan};
pub use curate::{REJECTS, check_output, curate};
pub use error::{ConfigProblem, CurationError};
pub use input::{SkippedFile, TruncatedFile};
pub use memory::LEAST_MEMORY;
pub use repair::{UnicodeRepair, UnicodeRepairConfig};
pub use report::CurationReport;
pub use summary::{
    DecontaminationSummary, FileSize, NGramCount, NearDuplicatesSummary, PlanSummary, RuleSummary,
    SourceSummary, TestSetSummary,
};
