//! Draws by key.

use training::parallel::random::{DropoutKey, DropoutMask, DropoutSite, KeyedNormal, philox4x32};

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
