//! The table of parameters: the paper's counts, the module tree, splits and initial values.

use burn::module::Module;
use training::backend::CpuAutodiff;
use training::model::{Gpt2, Gpt2Config, Init, KeyedInit, ParameterSource, ParameterSpec, Split};
use training::parallel::TensorParallelGroup;

use super::gradients::gradients_of;
use super::{made_up_batch, small_config, tokens};

/// (layers, hidden size, heads) of the paper's tables 1 and 2.
fn paper_config(num_layers: usize, hidden_size: usize, num_attention_heads: usize) -> Gpt2Config {
    Gpt2Config {
        num_layers,
        hidden_size,
        num_attention_heads,
        seq_length: 1024,
        vocab_size: 50_257,
        ..small_config()
    }
}

#[test]
fn the_papers_models_have_the_papers_parameter_counts() {
    let counts = [
        (paper_config(24, 1024, 16), 1, 354_871_296),
        (paper_config(40, 1536, 16), 1, 1_212_103_680),
        (paper_config(54, 1920, 20), 2, 2_488_934_400),
        (paper_config(64, 2304, 24), 4, 4_197_929_472),
        (paper_config(72, 3072, 32), 8, 8_317_040_640),
        (paper_config(72, 3072, 24), 8, 8_317_040_640),
    ];
    for (config, tensor_parallel_size, count) in counts {
        config.check_tensor_parallel(tensor_parallel_size).unwrap();
        assert_eq!(config.num_parameters(tensor_parallel_size), count);
    }
}

#[test]
fn the_table_lists_the_module_trees_parameters() {
    let (config, device) = (small_config(), Default::default());
    let source = KeyedInit { seed: 1 };
    let group = TensorParallelGroup::single();
    let model = Gpt2::<CpuAutodiff>::init(&config, &source, &group, &device).unwrap();
    let (inputs, targets, weights) = made_up_batch(1, 24, 301);
    let loss = model.loss(tokens(&inputs, 1), &targets, &weights, None);
    let mut in_tree: Vec<String> = gradients_of(&model, &loss.backward()).into_keys().collect();
    let mut in_table: Vec<String> = config.parameters().into_iter().map(|spec| spec.path).collect();
    in_tree.sort();
    in_table.sort();
    assert_eq!(in_tree, in_table);
    assert_eq!(model.num_params(), config.num_parameters(1));
}

#[test]
fn weight_decay_spares_biases_and_layer_norms() {
    for spec in small_config().parameters() {
        let is_weight = spec.path.ends_with("weight") && !spec.path.contains("layernorm");
        assert_eq!(spec.weight_decay, is_weight, "{}", spec.path);
    }
}

#[test]
fn the_parts_of_all_ranks_make_up_the_whole() {
    for spec in small_config().parameters() {
        for size in [1, 2, 4] {
            let mut covered = vec![0; spec.num_elements()];
            for rank in 0..size {
                let local: usize = spec.local_shape(rank, size).iter().product();
                for run in spec.local_runs(rank, size) {
                    assert!(run.local_range().end <= local, "{}", spec.path);
                    covered[run.logical_range()].iter_mut().for_each(|count| *count += 1);
                }
            }
            let copies = if spec.split == Split::Replicated { size } else { 1 };
            assert!(covered.iter().all(|&count| count == copies), "{} of {size}", spec.path);
        }
    }
}

#[test]
fn queries_keys_and_values_are_split_by_heads() {
    // One row of q0 q1 q2 q3 k0 k1 k2 k3 v0 v1 v2 v3, heads one number wide.
    let spec = ParameterSpec {
        path: "query_key_value.weight".to_owned(),
        name: "c_attn.weight".to_owned(),
        shape: vec![1, 12],
        split: Split::Dim { dim: 1, blocks: 3 },
        init: Init::Zeros,
        weight_decay: true,
    };
    let full: Vec<f32> = (0..12).map(|i| i as f32).collect();
    assert_eq!(spec.slice(&full, 0, 2), [0.0, 1.0, 4.0, 5.0, 8.0, 9.0]);
    assert_eq!(spec.slice(&full, 1, 2), [2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
}

#[test]
fn initial_weights_are_the_same_in_every_split() {
    let source = KeyedInit { seed: 42 };
    for spec in small_config().parameters() {
        let whole = source.local(&spec, 0, 1).unwrap();
        for size in [2, 4] {
            for rank in 0..size {
                let part = source.local(&spec, rank, size).unwrap();
                assert_eq!(part, spec.slice(&whole, rank, size), "{}", spec.path);
            }
        }
    }
}

#[test]
fn initial_weights_have_the_papers_spread() {
    let config = Gpt2Config { num_layers: 8, hidden_size: 128, init_std: 0.02, ..small_config() };
    for spec in config.parameters() {
        let values = KeyedInit { seed: 7 }.local(&spec, 0, 1).unwrap();
        let values = &values[..spec.num_elements()];
        let count = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
        let writes_to_residual =
            spec.path.ends_with("dense.weight") || spec.path.ends_with("4h_to_h.weight");
        let std = match spec.init {
            Init::Ones => {
                assert_eq!(mean, 1.0, "{}", spec.path);
                0.0
            }
            Init::Zeros => 0.0,
            Init::Normal { .. } if writes_to_residual => 0.02 / 16_f64.sqrt(),
            Init::Normal { .. } => 0.02,
        };
        // Five standard errors of the estimate.
        let tolerance = 5.0 * std / (2.0 * count).sqrt();
        assert!((variance.sqrt() - std).abs() <= tolerance, "{}: {variance}", spec.path);
    }
}
