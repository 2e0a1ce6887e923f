//! Duplicate removal: exact copies first, then near-duplicates by word 5-grams.
//!
//! ```text
//! text --shingles--> sorted set --signature--> 130 bins --bands--> 26 keys --index--> candidates --jaccard--> verdict
//! ```
//!
//! The kernels [`shingles()`], [`signature()`], [`bands()`] and [`jaccard_above`] are functions of
//! their arguments alone: they read no file and hold no state, so that another engine can call them
//! on another machine. [`SignedDocuments`] runs the first two over many documents, and
//! [`near_duplicates`] makes the decisions.

mod bands;
mod exact;
mod greedy;
mod index;
mod jaccard;
mod shingles;
mod signature;
mod signed;

pub use bands::{BandLayout, bands};
pub use exact::ExactIndex;
pub use greedy::{
    HOT_BUCKET_MEMBERS, HotBucket, NearDuplicate, NearDuplicateRule, NearDuplicates,
    near_duplicates,
};
pub use jaccard::{Jaccard, Threshold, jaccard_above};
pub use shingles::shingles;
pub use signature::signature;
pub use signed::SignedDocuments;
