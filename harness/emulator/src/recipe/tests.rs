use fidelity_references::Checkpoint;
use fidelity_trace::{BlockSite, Site};

use super::*;

fn parsed(text: &str) -> Recipe {
    Recipe::parse(text, "r", "r.alls").unwrap_or_else(|error| panic!("{error}"))
}

fn planned(text: &str) -> Plan {
    let architecture = Checkpoint::demo().expect("compiled in").architecture().clone();
    parsed(text).plan(&architecture, &LayerNames::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    let architecture = Checkpoint::demo().expect("compiled in").architecture().clone();
    let planned =
        Recipe::parse(text, "r", "r.alls").and_then(|recipe| recipe.plan(&architecture, &LayerNames::default()));
    planned.expect_err("invalid").to_string()
}

fn bits(plan: &Plan, site: BlockSite) -> u32 {
    plan.activations[&Site::Block(1, site)]
}

#[test]
fn one_line_decides_everything_but_the_embedding() {
    let plan = planned("# all\nquantization_param( {*}, precision_mode = a16_w4 )  # x\n");
    assert!(plan.activations.values().all(|bits| *bits == 16));
    assert!(plan.weights.values().all(|grid| *grid == WeightGrid { bits: 4, group: None }));
    assert_eq!((plan.embedding_bits, plan.activations.contains_key(&Site::Embed)), (16, false));
    assert_eq!(plan.precisions, ["a16_w4"]);
}

#[test]
fn what_no_line_names_has_8_bits() {
    let plan = planned("quantization_param({residual_adds}, precision_mode=a16_w16)");
    assert_eq!([BlockSite::ResidMid, BlockSite::ResidPost, BlockSite::Act].map(|site| bits(&plan, site)), [16, 16, 8]);
    assert!(plan.weights.values().all(|grid| grid.bits == 8));
}

#[test]
fn roles_lists_patterns_and_groups_select_layers_and_the_last_line_wins() {
    let plan = planned(
        "wide = [{swiglu_mults}, blocks.1.o_proj]\n\
         quantization_param(wide, precision_mode=a16_w16)\n\
         quantization_param({down_proj}, precision_mode=a16_w4_a16)\n\
         quantization_param({*_norm, blocks.?.gate*}, precision_mode=a16_w8)\n\
         quantization_param(blocks.0.down_proj, precision_mode=a8_w8)\n",
    );
    assert_eq!(bits(&plan, BlockSite::Act), 16);
    assert_eq!(bits(&plan, BlockSite::MlpOut), 16);
    assert_eq!(bits(&plan, BlockSite::AttnOut), 16);
    assert_eq!(bits(&plan, BlockSite::Gate), 16);
    assert_eq!(plan.activations[&Site::Block(0, BlockSite::AttnOut)], 8);
    assert_eq!(plan.weights[&Site::Block(1, BlockSite::MlpOut)].bits, 4);
    // The first block's down_proj reads 8 bits of the 16 that the product has.
    assert_eq!(plan.activations[&Site::Block(0, BlockSite::Act)], 8);
}

#[test]
fn a_linear_that_reads_8_bits_caps_what_it_alone_reads() {
    let plan = planned("quantization_param({*_norm}, precision_mode=a16_w16)");
    assert_eq!(bits(&plan, BlockSite::MlpNorm), 8);
    let plan = planned(
        "quantization_param({*_norm}, precision_mode=a16_w16)\n\
         quantization_param([gate_proj, up_proj], precision_mode=a16_w8_a8)\nquantization_param(q_proj, precision_mode=a16_w8)",
    );
    assert_eq!(bits(&plan, BlockSite::MlpNorm), 16);
    assert_eq!(bits(&plan, BlockSite::AttnNorm), 8);
    assert!(plan.not_emulated.iter().any(|said| said.starts_with("reads of attn_norm in different bits")));
}

#[test]
fn the_cache_has_its_own_precision() {
    let plan =
        planned("quantization_param({*}, precision_mode=a16_w8)\nquantization_param({kv_cache}, precision_mode=a8_w8)");
    assert_eq!([BlockSite::Q, BlockSite::K, BlockSite::V].map(|site| bits(&plan, site)), [16, 8, 8]);
}

#[test]
fn what_only_hands_on_changes_nothing_until_a_line_says_so() {
    let plan = planned("quantization_param([k_proj, final_norm, lm_head], precision_mode=a16_w8)");
    assert_eq!((bits(&plan, BlockSite::K), bits(&plan, BlockSite::V)), (16, 8));
    assert_eq!(plan.activations[&Site::FinalNorm], 16);
    assert_eq!(plan.precisions, ["a8_w8", "a16_w8"]);
}

#[test]
fn what_is_known_and_not_emulated_is_said_and_what_is_switched_off_is_not() {
    let plan = planned(
        "pre_quantization_optimization(smart_softmax_stats, force_zero_centered=True)\n\
         pre_quantization_optimization(ew_add_fusing, policy=disabled)\n\
         post_quantization_optimization(finetune, policy=disabled)\n\
         set_input_mask_to_softmax()\nset_kv_cache_global_params(prefill, cache)\n\
         model_optimization_flavor(compression_level=0, optimization_level=0)\n",
    );
    assert_eq!(plan.not_emulated[..2], ["smart_softmax_stats", "set_input_mask_to_softmax"]);
    assert_eq!(plan.not_emulated.len(), 3, "{:?}", plan.not_emulated);
}

#[test]
fn features_are_switched_on_and_off() {
    let plan = planned(
        "pre_quantization_optimization(quarot, policy=enabled)\n\
         pre_quantization_optimization(equalization)\n\
         pre_quantization_optimization(equalization, policy=disabled, layers=[{o_proj}])\n\
         pre_quantization_optimization(activation_clipping, layers={swiglu_mults}, mode=percentile, clipping_values=[0.1, 99.9])\n\
         post_quantization_optimization(bias_correction, policy=enabled)\n\
         model_optimization_config(calibration, batch_size=1, calibset_size=3)\n",
    );
    assert!(plan.rotated);
    assert!(plan.equalised.iter().all(|site| site.kind() == "mlp_out") && plan.equalised.len() == 4);
    assert_eq!(plan.clipping[&Site::Block(2, BlockSite::Act)], (0.1, 99.9));
    assert_eq!(plan.clipping.len(), 4);
    assert!(plan.bias_corrected.contains(&Site::Logits) && plan.bias_corrected.len() == 4 * 7 + 1);
    assert_eq!(plan.calibration_prompts, Some(3));
}

#[test]
fn a_compilers_own_names_go_through_the_map() {
    let architecture = Checkpoint::demo().expect("compiled in").architecture().clone();
    let names =
        LayerNames::parse("conv7 = 'blocks.1.q_proj'\nconv8 = ['blocks.1.k_proj', 'blocks.1.v_proj']", "m.toml");
    let recipe = parsed("quantization_param({conv*}, precision_mode=a16_w16)");
    let plan = recipe.plan(&architecture, &names.expect("valid")).expect("mapped");
    assert_eq!([BlockSite::Q, BlockSite::K, BlockSite::V].map(|site| bits(&plan, site)), [16; 3]);
    assert_eq!(plan.activations[&Site::Block(0, BlockSite::Q)], 8);
    assert!(error("quantization_param({conv*}, precision_mode=a16_w16)").contains("need --layer-names"));
    assert!(LayerNames::parse("conv1 = 3", "m.toml").expect_err("no name").to_string().contains("`conv1` is neither"));
}

#[test]
fn what_is_not_understood_is_refused_where_it_stands() {
    let starts = |text: &str, expected: &str| {
        let found = error(text);
        assert!(found.starts_with(expected), "{found}");
    };
    starts(
        "\n  quantisation_param({*}, precision_mode=a8_w8)",
        "r.alls:2:3: `quantisation_param` is not a command of LLM recipes (did you mean `quantization_param`?)",
    );
    starts("quantization_param({*}, precision_mode=a7_w8)", "r.alls:1:40: precision_mode is a7_w8, expected aX_wY");
    starts(
        "quantization_param({residual_ads}, precision_mode=a8_w8)",
        "r.alls:1:20: `residual_ads` is not a layer (did you mean `residual_adds`?)",
    );
    starts("quantization_param({*}, precison_mode=a8_w8)", "r.alls:1:1: quantization_param needs precision_mode");
    starts("quantization_param({*}, precision_mode=a8_w8, group=4)", "r.alls:1:47: `group` is not a parameter");
    starts(
        "quantization_param({*}, precision_mode=a8_w8",
        "r.alls:1:45: expected `,` or `)`, found the end of the script",
    );
    starts(
        "quantization_param(q_proj, weight_group_size=100, precision_mode=a8_w4)",
        "r.alls:1:46: weight_group_size 100 does not divide",
    );
    starts(
        "pre_quantization_optimization(quarrot)",
        "r.alls:1:31: `quarrot` is not a feature of pre_quantization_optimization (did you mean `quarot`?)",
    );
    starts("quantization_param({*}, precision_mode='a8_w8)", "r.alls:1:40: a string begins with '");
    starts("# nothing\n", "r.alls:1:1: the script holds no command");
    starts("a = [a]\nquantization_param(a, precision_mode=a8_w8)", "r.alls:1:6: `a` is not a layer");
    starts(&"[".repeat(100), "r.alls:1:1: expected a command or a name");
    starts(&format!("a = {}", "[".repeat(100)), "r.alls:1:21: lists are nested deeper");
    starts("quantization_param(\u{7}, precision_mode=a8_w8)", "r.alls:1:20: `\\u{7}` has no place");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-c_*?(){}\\[\\]=,#'\\n \u{e9}]{0,60}") {
        let _ = Recipe::parse(&text, "r", "r.alls");
    }
}
