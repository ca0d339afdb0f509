"""What config.json says for each architecture, drawn from a seed: sizes, constants, biases, windows, keys left to their
defaults, and the dialect (transformers 4 writes `rope_theta` and `rope_scaling`, transformers 5 `rope_parameters`)."""

VOCABULARY = (200, 400)
BLOCKS = (2, 4)
# Not 1: then the KV-cache of transformers 5.24 keeps all keys and its steps are not what its prefill is.
WINDOWS = (2, 12)


class Draw:
    """Choices made by one random generator, in the order they are asked for."""

    def __init__(self, generator):
        self.generator = generator

    def one(self, *options):
        return options[self.generator.integers(len(options))]

    def sometimes(self):
        return bool(self.generator.integers(2))

    def whole(self, low, high):
        return int(self.generator.integers(low, high + 1))

    def between(self, low, high):
        return round(float(self.generator.uniform(low, high)), 3)

    def keep(self, config, **keys):
        """Sets each key, or leaves it to its default."""
        config.update({key: value for key, value in keys.items() if self.sometimes()})


def decoder(draw, model_type, name, heads=None, kv_heads=None, head_dim=None):
    """The keys that all families named like Llama share."""
    heads = heads or draw.one(2, 4, 6, 8)
    width = draw.one(16, 24, 32)
    config = {
        "architectures": [name],
        "model_type": model_type,
        "hidden_size": heads * width,
        "intermediate_size": draw.whole(48, 200),
        "num_hidden_layers": draw.whole(*BLOCKS),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads or draw.one(*(n for n in range(1, heads + 1) if heads % n == 0)),
        "hidden_act": draw.one("silu", "silu", "silu", "gelu", "gelu_pytorch_tanh", "relu", "quick_gelu"),
        "max_position_embeddings": 128,
        "vocab_size": draw.whole(*VOCABULARY),
        "tie_word_embeddings": draw.sometimes(),
        "bos_token_id": 1,
        "eos_token_id": draw.one(2, [2, 3], None),
    }
    if head_dim:
        config["head_dim"] = head_dim
    else:
        # Qwen2's and SmolLM3's classes fail on null.
        draw.keep(config, head_dim=width if model_type in ("qwen2", "smollm3") else draw.one(width, None))
    draw.keep(config, rms_norm_eps=draw.one(1e-5, 1e-6, 1e-4), initializer_range=0.02, use_cache=True)
    draw.keep(config, **{draw.one("dtype", "torch_dtype"): "float32"})
    return config


def with_rope(draw, config, kind="default", parameters=None):
    """Adds the rotary embedding in one of the dialects."""
    theta = draw.one(None, 10000, 10000.0, 100000.0, 500000.0, 1e6)
    theta = {} if theta is None else {"rope_theta": theta}
    parameters = parameters or {}
    if draw.sometimes():
        return config | {"rope_parameters": {"rope_type": kind} | theta | parameters}
    config = config | theta
    if kind == "default":
        return config | draw.one({}, {"rope_scaling": None})
    return config | {"rope_scaling": {draw.one("type", "rope_type"): kind} | parameters}


def with_any_rope(draw, config):
    kind = draw.one("default", "default", "default", "linear", "llama3", "yarn")
    return with_rope(draw, config, kind, SCALINGS[kind](draw))


def linear(draw):
    return {"factor": draw.one(2, 4.0, 8.0, draw.between(1.1, 16))}


def dynamic(draw):
    return {"factor": draw.one(2, 4.0, draw.between(1.5, 8))}


def llama3(draw):
    low = draw.one(1.0, draw.between(0.5, 2))
    return {
        "factor": draw.one(8.0, 32.0, draw.between(2, 32)),
        "low_freq_factor": low,
        "high_freq_factor": draw.one(4.0, round(low + draw.between(0.5, 6), 3)),
        "original_max_position_embeddings": draw.whole(8, 64),
    }


def yarn(draw):
    parameters = {"factor": draw.one(4.0, 8, draw.between(1.5, 32))}
    draw.keep(
        parameters,
        original_max_position_embeddings=draw.whole(8, 64),
        beta_fast=draw.one(32, draw.between(8, 64)),
        beta_slow=draw.one(1, draw.between(0.5, 4)),
        truncate=False,
    )
    match draw.one("default", "explicit", "mscale", "one mscale"):
        case "explicit":
            parameters["attention_factor"] = draw.between(0.8, 1.2)
        case "mscale":
            parameters |= {"mscale": draw.between(0.5, 1.5), "mscale_all_dim": draw.between(0.5, 1.5)}
        case "one mscale":
            parameters["mscale"] = draw.between(0.5, 2)
    return parameters


SCALINGS = {"default": lambda _: {}, "linear": linear, "dynamic": dynamic, "llama3": llama3, "yarn": yarn}


def llama(draw, kind="default", **shape):
    config = decoder(draw, "llama", "LlamaForCausalLM", **shape)
    draw.keep(config, attention_bias=False, mlp_bias=False, pretraining_tp=1)
    return with_rope(draw, config, kind, SCALINGS[kind](draw))


def llama_gqa(draw):
    heads = draw.one(4, 6, 8)
    return llama(draw, heads=heads, kv_heads=draw.one(*(n for n in range(2, heads) if heads % n == 0)))


def llama_mha_tied(draw):
    heads = draw.one(2, 3, 4, 8)
    config = llama(draw, heads=heads, kv_heads=heads) | {"tie_word_embeddings": True}
    how = draw.one("given", "null", "absent")
    if how != "given":
        config["num_key_value_heads"] = None
    if how == "absent":
        del config["num_key_value_heads"]
    return config


def llama_bias(draw):
    attention, mlp = draw.one((True, True), (True, False), (False, True))
    return llama(draw) | {"attention_bias": attention, "mlp_bias": mlp}


def llama_head_dim(draw):
    config = llama(draw)
    width = config["hidden_size"] // config["num_attention_heads"]
    return config | {"head_dim": draw.one(*(d for d in (6, 8, 16, 32, 48) if d != width))}


def llama_dynamic(draw):
    return llama(draw, "dynamic") | {"max_position_embeddings": draw.whole(12, 40)}


def mistral(draw, window):
    config = with_any_rope(draw, decoder(draw, "mistral", "MistralForCausalLM"))
    if config["num_attention_heads"] == 8 and draw.sometimes():
        del config["num_key_value_heads"]
    return config | window


def mistral_window(draw):
    return mistral(draw, {"sliding_window": draw.whole(*WINDOWS)})


def mistral_nowindow(draw):
    return mistral(draw, draw.one({}, {"sliding_window": None}))


def windows(draw, blocks, used):
    """Qwen's keys about windows. Not used, they may still be filled in."""
    if not used:
        return draw.one({}, {"use_sliding_window": False, "sliding_window": 4, "max_window_layers": 0})
    first = draw.whole(0, blocks - 1)
    config = {"use_sliding_window": True, "sliding_window": draw.whole(*WINDOWS), "max_window_layers": first}
    if draw.sometimes():
        kinds = [draw.one("full_attention", "sliding_attention") for _ in range(blocks)]
        kinds[first] = "sliding_attention"
        config["layer_types"] = kinds
    return config


def qwen2(draw, used=False):
    config = with_any_rope(draw, decoder(draw, "qwen2", "Qwen2ForCausalLM"))
    return config | windows(draw, config["num_hidden_layers"], used)


def qwen3(draw):
    absent = draw.one(True, False, False)
    heads = 2 if absent else None
    config = with_any_rope(draw, decoder(draw, "qwen3", "Qwen3ForCausalLM", heads, head_dim=draw.one(8, 16, 32, 48)))
    if absent:
        del config["head_dim"]
    draw.keep(config, attention_bias=draw.sometimes())
    return config | windows(draw, config["num_hidden_layers"], draw.sometimes())


def smollm3(draw):
    config = with_any_rope(draw, decoder(draw, "smollm3", "SmolLM3ForCausalLM"))
    blocks = config["num_hidden_layers"] = draw.whole(3, 5)
    match draw.one("list", "interval", "absent"):
        case "list":
            config["no_rope_layers"] = [draw.whole(0, 1) for _ in range(blocks)]
        case "interval":
            config["no_rope_layer_interval"] = draw.whole(2, 4)
    draw.keep(config, attention_bias=True, mlp_bias=True, use_sliding_window=draw.sometimes())
    # The default of its class is an id of a large vocabulary.
    return config | {"sliding_window": draw.one(None, draw.whole(*WINDOWS)), "pad_token_id": 0}


def gpt2(draw, inverse=False):
    heads = draw.one(2, 3, 4)
    hidden = heads * draw.one(16, 24)
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_head": heads,
        "n_layer": draw.whole(*BLOCKS),
        "n_positions": 128,
        "vocab_size": draw.whole(*VOCABULARY),
        "bos_token_id": 1,
        "eos_token_id": draw.one(2, [2, 3]),
    }
    draw.keep(
        config,
        n_inner=draw.one(None, draw.whole(48, 200)),
        n_ctx=128,
        activation_function=draw.one("gelu_new", "gelu", "relu", "gelu_pytorch_tanh", "quick_gelu"),
        layer_norm_epsilon=draw.one(1e-5, 1e-6, 1e-4),
        scale_attn_weights=draw.sometimes(),
        reorder_and_upcast_attn=draw.sometimes(),
        tie_word_embeddings=draw.sometimes(),
    )
    return config | ({"scale_attn_by_inverse_layer_idx": True} if inverse else {})


def bert(draw):
    heads = draw.one(2, 3, 4)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": heads * draw.one(16, 24),
        "intermediate_size": draw.whole(48, 200),
        "num_hidden_layers": draw.whole(*BLOCKS),
        "num_attention_heads": heads,
        "max_position_embeddings": 128,
        "vocab_size": draw.whole(*VOCABULARY),
        "pad_token_id": 0,
    }
    draw.keep(
        config,
        hidden_act=draw.one("gelu", "gelu_new", "relu"),
        layer_norm_eps=draw.one(1e-12, 1e-6, 1e-5),
        type_vocab_size=draw.one(1, 2, 3),
    )
    return config


ARCHITECTURES = {
    "llama-gqa": llama_gqa,
    "llama-mha-tied": llama_mha_tied,
    "llama-bias": llama_bias,
    "llama-head-dim": llama_head_dim,
    "llama-rope-linear": lambda draw: llama(draw, "linear"),
    "llama-rope-dynamic": llama_dynamic,
    "llama-rope-llama3": lambda draw: llama(draw, "llama3"),
    "llama-rope-yarn": lambda draw: llama(draw, "yarn"),
    "mistral-window": mistral_window,
    "mistral-nowindow": mistral_nowindow,
    "qwen2": qwen2,
    "qwen2-window": lambda draw: qwen2(draw, used=True),
    "qwen3": qwen3,
    "smollm3": smollm3,
    "gpt2": gpt2,
    "gpt2-inverse": lambda draw: gpt2(draw, inverse=True),
    "bert": bert,
}
