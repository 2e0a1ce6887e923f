//! Duplicate removal: exact copies first, then near-duplicates by word 5-grams.
//!
//! ```text
//! text --shingles--> sorted set --signature--> 130 bins --bands--> 26 keys
//!      --index--> candidates --jaccard--> verdict
//! ```
//!
//! The kernels [`shingles()`], [`signature()`], [`bands()`] and [`jaccard_above`] are functions of
//! their arguments alone: they read no file and hold no state, so that another engine can call them
//! on another machine. [`sign`] is the first two. [`Search`] makes the decisions over a
//! [`SignedCorpus`], step by step, with an index of limited size.

mod bands;
mod buckets;
mod candidate_list;
mod candidates;
mod document_set;
mod exact;
mod jaccard;
mod lsh_index;
mod near_duplicates;
mod prefix_index;
mod prefixes;
mod rule;
mod screen;
mod search;
mod shingles;
mod signature;
mod signed;
mod stretch;
mod words;

pub use bands::{BandLayout, bands};
pub use candidates::Candidates;
pub use exact::{BYTES_PER_TEXT, Copy, ExactIndex, HashRange, text_hash};
pub use jaccard::{Jaccard, Threshold, jaccard_above};
pub use near_duplicates::{NearDuplicates, near_duplicates};
pub use rule::NearDuplicateRule;
pub use search::Search;
pub use shingles::shingles;
pub use signature::signature;
pub use signed::{SignedCorpus, SignedDocuments, sign};
pub use stretch::{HOT_BUCKET_MEMBERS, HotBucket, HotBuckets, Removal, Stretch, StretchPlace};
