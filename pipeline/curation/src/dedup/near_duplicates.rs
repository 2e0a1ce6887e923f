//! All decisions at once, held in memory.

use std::time::Duration;

use corpus::Observer;

use super::rule::NearDuplicateRule;
use super::search::Search;
use super::signed::SignedCorpus;
use super::stretch::{HotBucket, HotBuckets, Removal};
use crate::CurationError;

/// The decision on every document.
#[derive(Debug)]
pub struct NearDuplicates {
    /// For each document, why it is removed; `None` where it is kept.
    pub removed: Vec<Option<Removal>>,
    /// Buckets with more than [`HOT_BUCKET_MEMBERS`](super::HOT_BUCKET_MEMBERS) kept members,
    /// largest first.
    pub hot_buckets: Vec<HotBucket>,
    /// Time of all threads spent on documents that met such a bucket.
    pub hot_bucket_time: Duration,
}

/// Decides about all documents at once, with an index as large as they need.
///
/// The observer hears the number of documents that are decided.
///
/// # Errors
///
/// [`CurationError::Stopped`] when the observer asked for it.
pub fn near_duplicates(
    corpus: &dyn SignedCorpus,
    rule: &NearDuplicateRule,
    observer: &dyn Observer,
) -> Result<NearDuplicates, CurationError> {
    let mut search = Search::new(corpus, rule, u64::MAX);
    let mut removed = vec![None; corpus.len() as usize];
    let mut hot_buckets = HotBuckets::default();
    let mut hot_bucket_time = Duration::ZERO;
    while let Some(stretch) = search.next_stretch(observer)? {
        hot_buckets.add(&stretch);
        hot_bucket_time += stretch.hot_bucket_time;
        for removal in stretch.removed {
            removed[removal.document as usize] = Some(removal);
        }
    }
    Ok(NearDuplicates { removed, hot_buckets: hot_buckets.largest_first(), hot_bucket_time })
}
