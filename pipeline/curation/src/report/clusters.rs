//! Clusters: a kept document with the copies and near-duplicates that went for it.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::records::Location;

/// Clusters that a report shows.
const CLUSTERS_SHOWN: usize = 10;

/// Sizes of clusters while they are counted: eight bytes for each document of the input.
///
/// A document that names a witness which itself went later, such as the copy of a contaminated
/// one, belongs to no cluster and is not added.
#[derive(Debug)]
pub struct Clusters {
    /// For each document of the input, how many went for it.
    removed: Vec<u32>,
    /// For each document of the input, the first that went for it; of use where one did.
    first_removed: Vec<u32>,
}

/// A kept document and the first that went for it, by their numbers in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterPair {
    /// Documents of the cluster, the kept one among them.
    pub size: u64,
    /// The kept document.
    pub kept: u32,
    /// The first document that was removed for it.
    pub removed: u32,
}

/// What the clusters of a corpus come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSummary {
    /// The ten largest, largest first, the earliest first among equals.
    pub largest: Vec<ClusterPair>,
    /// The number of clusters by their size, ascending.
    pub sizes: Vec<SizeClass>,
}

/// Clusters of about one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeClass {
    /// Least number of documents of such a cluster: 2, 3, or a power of two from 4 on. It has fewer
    /// than twice as many; 2 and 3 stand for themselves.
    pub from: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// Documents of them together, the kept ones among them.
    pub documents: u64,
    /// The earliest of them.
    pub example: ClusterPair,
}

/// A kept document with its exact and near duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Number of documents, the kept one among them.
    pub size: u64,
    /// The kept document and the first that was removed for it.
    pub example: ClusterExample,
}

/// Clusters of about one size, as reports write them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterSize {
    /// Least number of documents of such a cluster.
    pub from: u64,
    /// Greatest number.
    pub to: u64,
    /// Number of clusters.
    pub clusters: u64,
    /// Documents of them together, the kept ones among them.
    pub documents: u64,
    /// A pair of the earliest of them.
    pub example: ClusterExample,
}

/// A pair of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterExample {
    /// The document that was kept.
    pub kept: Location,
    /// A document that was removed.
    pub removed: Location,
    /// Their Jaccard similarity; 1 for equal texts.
    pub jaccard: f64,
}

impl Clusters {
    /// No cluster yet, in an input of `documents` documents.
    #[must_use]
    pub fn new(documents: u32) -> Self {
        let documents = documents as usize;
        Self { removed: vec![0; documents], first_removed: vec![0; documents] }
    }

    /// Adds a document that went, for a witness that is in the curated corpus. Documents come in
    /// input order.
    pub fn add(&mut self, removed: u32, witness: u32) {
        let number = &mut self.removed[witness as usize];
        if *number == 0 {
            self.first_removed[witness as usize] = removed;
        }
        *number += 1;
    }

    /// The largest clusters and the sizes of all.
    #[must_use]
    pub fn summary(&self) -> ClusterSummary {
        let mut largest: Vec<ClusterPair> = Vec::with_capacity(CLUSTERS_SHOWN + 1);
        let mut sizes: Vec<Option<SizeClass>> = vec![None; 33];
        for pair in self.pairs() {
            let place = largest.partition_point(|other| Reverse(other.size) <= Reverse(pair.size));
            if place < CLUSTERS_SHOWN {
                largest.insert(place, pair);
                largest.truncate(CLUSTERS_SHOWN);
            }
            let class = &mut sizes[size_class(pair.size)];
            let class = class.get_or_insert(SizeClass {
                from: least_of_class(size_class(pair.size)),
                clusters: 0,
                documents: 0,
                example: pair,
            });
            class.clusters += 1;
            class.documents += pair.size;
        }
        ClusterSummary { largest, sizes: sizes.into_iter().flatten().collect() }
    }

    /// Every cluster, by its kept document, in input order.
    fn pairs(&self) -> impl Iterator<Item = ClusterPair> + '_ {
        let counted = self.removed.iter().zip(&self.first_removed).zip(0_u32..);
        counted.filter(|((removed, _), _)| **removed > 0).map(|((&number, &removed), kept)| {
            ClusterPair { size: u64::from(number) + 1, kept, removed }
        })
    }
}

impl ClusterSummary {
    /// Every pair that the summary shows.
    pub fn shown(&self) -> impl Iterator<Item = ClusterPair> + '_ {
        self.largest.iter().copied().chain(self.sizes.iter().map(|class| class.example))
    }

    /// The summary as reports write it; `example` tells what a pair is.
    ///
    /// # Errors
    ///
    /// Those of `example`.
    pub fn report<E>(
        &self,
        mut example: impl FnMut(ClusterPair) -> Result<ClusterExample, E>,
    ) -> Result<(Vec<Cluster>, Vec<ClusterSize>), E> {
        let largest = self
            .largest
            .iter()
            .map(|&pair| Ok(Cluster { size: pair.size, example: example(pair)? }));
        let largest = largest.collect::<Result<_, E>>()?;
        let sizes = self.sizes.iter().map(|class| {
            Ok(ClusterSize {
                from: class.from,
                to: greatest_of_class(class.from),
                clusters: class.clusters,
                documents: class.documents,
                example: example(class.example)?,
            })
        });
        Ok((largest, sizes.collect::<Result<_, E>>()?))
    }
}

/// The class of a size, of 2 or more: 2, 3, 4 to 7, 8 to 15, and so on.
fn size_class(size: u64) -> usize {
    if size == 2 { 0 } else { size.ilog2() as usize }
}

/// The least size of a class.
fn least_of_class(class: usize) -> u64 {
    if class < 2 { 2 + class as u64 } else { 1 << class }
}

/// The greatest size of the class that begins at `from`.
fn greatest_of_class(from: u64) -> u64 {
    if from < 4 { from } else { 2 * from - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_kept_documents_with_those_that_name_them() {
        let mut clusters = Clusters::new(9);
        for (removed, witness) in [(1, 0), (3, 2), (4, 2), (7, 6), (8, 2)] {
            clusters.add(removed, witness);
        }
        let summary = clusters.summary();
        let pairs: Vec<_> =
            summary.largest.iter().map(|it| (it.size, it.kept, it.removed)).collect();
        assert_eq!(pairs, [(4, 2, 3), (2, 0, 1), (2, 6, 7)], "largest, then earliest, first");
    }

    #[test]
    fn the_ten_largest_are_shown() {
        let mut clusters = Clusters::new(100);
        for witness in 0..20 {
            (0..=witness % 12).for_each(|number| clusters.add(20 + number, witness));
        }
        let largest = clusters.summary().largest;
        let shown: Vec<_> = largest.iter().map(|it| (it.size, it.kept)).collect();
        let expected = [
            (13, 11),
            (12, 10),
            (11, 9),
            (10, 8),
            (9, 7),
            (9, 19),
            (8, 6),
            (8, 18),
            (7, 5),
            (7, 17),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn sizes_are_counted_in_classes_that_double() {
        let mut clusters = Clusters::new(100);
        for (witness, removed) in [(0, 1), (1, 2), (2, 3), (3, 6), (4, 7), (5, 1), (6, 15)] {
            (0..removed).for_each(|number| clusters.add(50 + number, witness));
        }
        let example = |pair: ClusterPair| {
            let place = |number: u32| Location {
                source: None,
                file: "f".to_owned(),
                line: Some(number.into()),
                id: None,
            };
            let (kept, removed) = (place(pair.kept), place(pair.removed));
            Ok::<_, ()>(ClusterExample { kept, removed, jaccard: 1.0 })
        };
        let (largest, sizes) = clusters.summary().report(example).unwrap();
        let seen: Vec<_> = sizes
            .iter()
            .map(|it| (it.from, it.to, it.clusters, it.documents, it.example.kept.line))
            .collect();
        assert_eq!(
            seen,
            [
                (2, 2, 2, 4, Some(0)),
                (3, 3, 1, 3, Some(1)),
                (4, 7, 2, 11, Some(2)),
                (8, 15, 1, 8, Some(4)),
                (16, 31, 1, 16, Some(6)),
            ]
        );
        assert_eq!((largest.len(), largest[0].size), (7, 16));
        assert_eq!(Clusters::new(3).summary(), ClusterSummary { largest: vec![], sizes: vec![] });
    }
}
