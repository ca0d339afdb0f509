//! Tensor names: GGUF ↔ Hugging Face.

/// Outside the blocks.
const GLOBAL: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

/// Inside block i: `blk.i.` ↔ `model.layers.i.`, then one of these, then `weight` or `bias`.
const BLOCK: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The Hugging Face name of a GGUF tensor, if it has one.
pub(super) fn to_checkpoint(name: &str) -> Option<String> {
    if let Some((_, checkpoint)) = GLOBAL.iter().find(|(gguf, _)| *gguf == name) {
        return Some((*checkpoint).to_owned());
    }
    let (block, part, role) = split(name.strip_prefix("blk.")?)?;
    let (_, checkpoint) = BLOCK.iter().find(|(gguf, _)| *gguf == part)?;
    Some(format!("model.layers.{block}.{checkpoint}.{role}"))
}

/// The GGUF name of a Hugging Face tensor, if it has one.
pub(super) fn to_gguf(name: &str) -> Option<String> {
    if let Some((gguf, _)) = GLOBAL.iter().find(|(_, checkpoint)| *checkpoint == name) {
        return Some((*gguf).to_owned());
    }
    let (block, part, role) = split(name.strip_prefix("model.layers.")?)?;
    let (gguf, _) = BLOCK.iter().find(|(_, checkpoint)| *checkpoint == part)?;
    Some(format!("blk.{block}.{gguf}.{role}"))
}

/// `3.attn_q.weight` → (3, `attn_q`, `weight`).
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let (block, rest) = name.split_once('.')?;
    let (part, role) = rest.rsplit_once('.')?;
    let canonical = block.parse::<u16>().is_ok_and(|number| number.to_string() == block);
    (canonical && matches!(role, "weight" | "bias")).then_some((block, part, role))
}
