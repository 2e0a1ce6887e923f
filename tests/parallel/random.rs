//! Draws by key.

use training::backend::{AttentionSettings, VisibleKeys, attention, dropout};
use training::parallel::random::{
    DropoutKey, DropoutMask, DropoutSite, KeyedDropout, KeyedNormal, philox4x32,
};
use training::parallel::{ParallelDims, launch};

use crate::tensors::{constant, values};

#[test]
fn philox_gives_the_published_words() {
    // Known answers of Random123, the authors' implementation, for philox4x32 with 10 rounds.
    assert_eq!(philox4x32([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(
        philox4x32([u32::MAX; 2], [u32::MAX; 4]),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
    assert_eq!(
        philox4x32(
            [0xa409_3822, 0x299f_31d0],
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]
        ),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn keyed_normal_numbers_have_the_moments_of_the_normal_distribution() {
    let normal = KeyedNormal::new(1, 2);
    let count = 200_000;
    let drawn: Vec<f64> = (0..count / 4).flat_map(|block| normal.block(block)).collect();
    let moment = |power: i32| drawn.iter().map(|x| x.powi(power)).sum::<f64>() / count as f64;
    // About five standard errors each.
    assert!(moment(1).abs() < 0.012);
    assert!((moment(2) - 1.0).abs() < 0.016);
    assert!(moment(3).abs() < 0.045);
    assert!((moment(4) - 3.0).abs() < 0.12);
}

fn mask(site: DropoutSite, layer: usize, step: u64) -> DropoutMask {
    DropoutMask::new(&DropoutKey { seed: 3, step, first_sample: 100 }, site, layer, 0.25)
}

fn draws(mask: &DropoutMask, sample: usize, head: usize) -> Vec<f32> {
    (0..2500).flat_map(|block| mask.factors(sample, head, block)).collect()
}

#[test]
fn a_mask_drops_its_share_and_keeps_the_mean() {
    let factors = draws(&mask(DropoutSite::Embedding, 0, 0), 0, 0);
    let dropped = factors.iter().filter(|&&factor| factor == 0.0).count();
    // 10,000 draws: five standard errors are 217.
    assert!((2283..=2717).contains(&dropped), "{dropped} of 10,000 dropped at 0.25");
    assert!(factors.iter().all(|&factor| factor == 0.0 || factor == 1.0 / 0.75));
}

#[test]
fn every_part_of_the_key_changes_the_mask() {
    use DropoutSite::{AttentionOutput, MlpOutput};
    let base = draws(&mask(MlpOutput, 1, 7), 2, 3);
    assert_eq!(base, draws(&mask(MlpOutput, 1, 7), 2, 3));
    let others = [
        draws(&mask(AttentionOutput, 1, 7), 2, 3),
        draws(&mask(MlpOutput, 2, 7), 2, 3),
        draws(&mask(MlpOutput, 1, 8), 2, 3),
        draws(&mask(MlpOutput, 1, 7), 1, 3),
        draws(&mask(MlpOutput, 1, 7), 2, 2),
    ];
    for other in others {
        // Two independent masks agree at 0.25² + 0.75² of the places.
        let equal = base.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!((6000..6500).contains(&equal), "{equal} of 10,000 places agree");
    }
}

#[test]
fn a_rank_draws_the_masks_of_its_own_heads() {
    let all = mask(DropoutSite::AttentionProbabilities, 0, 1);
    let second_half = all.with_first_head(4);
    assert_eq!(draws(&all, 5, 6), draws(&second_half, 5, 2));
}

/// What a rank of a grid of two by two drops: of an activation that all ranks of a copy hold, and of
/// the attention probabilities of its own heads.
#[test]
fn ranks_of_a_copy_drop_the_same_of_what_they_share_and_all_else_differs() {
    const SAMPLES: u64 = 4;
    let (seq, width, heads) = (8, 16, 4);
    let drawn = launch(ParallelDims { tensor: 2, data: 2 }, |rank| {
        let share = rank.data_parallel.share(SAMPLES);
        let key = DropoutKey { seed: 7, step: 3, first_sample: share.start };
        let samples = (share.end - share.start) as usize;
        let drop =
            |site| KeyedDropout { site, layer: 1, probability: 0.3 }.mask(Some(&key)).unwrap();
        let ones = |count: usize| vec![1.0; count];
        let activation = constant(&ones(samples * seq * width), [samples, seq, width]);
        let activation = dropout(activation, Some(drop(DropoutSite::MlpOutput)));
        let own_heads = heads / rank.tensor_parallel.size();
        let mask = drop(DropoutSite::AttentionProbabilities)
            .with_first_head(rank.tensor_parallel.rank() * own_heads);
        // The same numbers on every rank: what differs is the mask.
        let shape = [samples, seq, 3 * own_heads * 2];
        let settings = AttentionSettings {
            heads: own_heads,
            scale: 1.0,
            visible: VisibleKeys::Causal,
            mask: Some(mask),
        };
        let context = attention(constant(&ones(shape.iter().product()), shape), settings);
        Ok((values(activation), values(context)))
    })
    .unwrap();
    let [first, second, other, last] = &drawn[..] else { panic!("four ranks") };
    assert!(first.0 == second.0 && other.0 == last.0, "replicated within a copy");
    assert!(first.0 != other.0, "another copy has other samples");
    assert!(first.1 != second.1 && other.1 != last.1, "each rank has heads of its own");
    assert!(first.1 != other.1 && second.1 != last.1);
}
