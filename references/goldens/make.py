#!/usr/bin/env python3
"""Makes golden checkpoints: tiny models of random weights, with the values that transformers computes for them.

    python3 make.py --arch llama-gqa --seed 7 --out DIR     (--arch all: one folder for each architecture)

DIR/<architecture> holds config.json, model.safetensors and golden.safetensors. All that is drawn follows from the seed
and the architecture's name. transformers reads the finished folder, in eager attention, float32, on the CPU.

golden.safetensors, T positions, H hidden, V vocabulary:

    token_ids                i64 [T]    what is fed
    embed                    [T, H]     input of block 0
    blocks.{i}.attn_out      [T, H]     what attention adds to the residual stream (BERT: before its norm)
    blocks.{i}.mlp_out       [T, H]     what the MLP adds
    blocks.{i}.resid_post    [T, H]     after block i
    last_hidden_state        [T, H]
    final_norm, logits       [T, H], [T, V]           decoders
    greedy_ids, greedy_logits i64 [G], [G, V]         decoders: G = 12 steps through the KV-cache, fewer after an EOS
"""

import argparse
import json
import os
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy
import torch
import transformers
from safetensors.torch import save_file

from architectures import ARCHITECTURES, Draw

NEW_TOKENS = 12


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--arch", required=True, choices=[*ARCHITECTURES, "all"])
    arguments.add_argument("--seed", required=True, type=int)
    arguments.add_argument("--out", required=True)
    arguments = arguments.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_grad_enabled(False)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, seed {arguments.seed}")
    for name in ARCHITECTURES if arguments.arch == "all" else [arguments.arch]:
        make(name, arguments.seed, os.path.join(arguments.out, name))


def make(name, seed, folder):
    generator = numpy.random.default_rng([seed, zlib.crc32(name.encode())])
    draw = Draw(generator)
    config = ARCHITECTURES[name](draw)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    weights = random_weights(folder, generator)
    save_file(in_some_spelling(draw, name, weights), os.path.join(folder, "model.safetensors"), {"format": "pt"})
    model = read(folder)
    golden = values(model, token_ids(draw, name, config))
    save_file(golden, os.path.join(folder, "golden.safetensors"))
    print(f"{name}: {sum(tensor.numel() for tensor in weights.values())} weights, {len(golden)} tensors")


def auto_class(config):
    return transformers.AutoModel if config.model_type == "bert" else transformers.AutoModelForCausalLM


def random_weights(folder, generator):
    """A tensor for every parameter, with the spread that training leaves: outputs about as large as inputs, rows of
    unequal strength, norms around 1, biases that matter. With matrices a third larger, float32 loses so much in four
    blocks that transformers and the engine each come to be 1e-5 from float64."""
    config = transformers.AutoConfig.from_pretrained(folder)
    model = auto_class(config).from_config(config)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    linears = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Linear)}
    drawn = {}
    # A tied head is its embedding and comes once.
    for name, parameter in model.named_parameters():
        shape = parameter.shape
        normal = generator.standard_normal(shape)
        if id(parameter) in tables:
            value = 0.6 * normal
        elif len(shape) == 2:
            out, inputs = shape if id(parameter) in linears else reversed(shape)
            strength = numpy.exp(0.25 * generator.standard_normal(out))
            strength = strength[:, None] if id(parameter) in linears else strength
            value = 0.9 / numpy.sqrt(inputs) * strength * normal
            if "c_attn" in name and not config.scale_attn_weights:
                # Scores are then those of a model that scales them.
                value *= (config.n_embd / config.n_head) ** -0.25
        else:
            value = 0.3 * normal + (1 if name.endswith("weight") else 0)
        drawn[name] = torch.from_numpy(value.astype(numpy.float32))
    return drawn


def in_some_spelling(draw, name, weights):
    """The names that files of these families use: GPT-2 with or without its prefix, BERT with old names of norms."""
    if name.startswith("gpt2") and draw.sometimes():
        return {key.removeprefix("transformer."): tensor for key, tensor in weights.items()}
    if name == "bert":
        prefix = draw.one("", "bert.")
        old = draw.sometimes()
        rename = lambda key: key.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
        return {prefix + (rename(key) if old else key): tensor for key, tensor in weights.items()}
    return weights


def token_ids(draw, name, config):
    length = draw.whole(16, 40)
    if name == "llama-rope-dynamic":
        # On both sides of the length where the angles begin to change, and across it while decoding.
        length = config["max_position_embeddings"] + draw.whole(-6, 40)
    rest = [draw.whole(3, config["vocab_size"] - 1) for _ in range(length - 1)]
    return torch.tensor([1, *rest])


def read(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    model, loading = auto_class(config).from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    left = {kind: keys for kind, keys in loading.items() if keys}
    if left:
        raise SystemExit(f"{folder}: transformers did not read the weights as written: {left}")
    return model.eval()


def values(model, ids):
    golden = {"token_ids": ids}
    blocks, attention, mlp, norm = parts(model)

    def keep(site):
        def hook(_module, inputs, output):
            tensor = output[0] if isinstance(output, tuple) else output
            golden[site] = tensor[0].clone()
        return hook

    def keep_input(_module, inputs):
        golden["embed"] = inputs[0][0].clone()

    hooks = [blocks[0].register_forward_pre_hook(keep_input)]
    for index, block in enumerate(blocks):
        hooks.append(attention(block).register_forward_hook(keep(f"blocks.{index}.attn_out")))
        hooks.append(mlp(block).register_forward_hook(keep(f"blocks.{index}.mlp_out")))
        hooks.append(block.register_forward_hook(keep(f"blocks.{index}.resid_post")))
    if norm is not None:
        hooks.append(norm.register_forward_hook(keep("final_norm")))
    output = model(input_ids=ids[None], use_cache=False) if norm is not None else model(input_ids=ids[None])
    for hook in hooks:
        hook.remove()
    if norm is None:
        return golden | {"last_hidden_state": output.last_hidden_state[0]}
    golden |= {"last_hidden_state": model.base_model(input_ids=ids[None], use_cache=False).last_hidden_state[0]}
    return golden | {"logits": output.logits[0]} | greedy(model, ids)


def parts(model):
    """The blocks, where in a block attention and MLP end, and the final norm."""
    match model.config.model_type:
        case "bert":
            return model.encoder.layer, lambda b: b.attention.output.dense, lambda b: b.output.dense, None
        case "gpt2":
            return model.transformer.h, lambda b: b.attn, lambda b: b.mlp, model.transformer.ln_f
        case _:
            return model.model.layers, lambda b: b.self_attn, lambda b: b.mlp, model.model.norm


def greedy(model, ids):
    made = model.generate(
        input_ids=ids[None],
        attention_mask=torch.ones_like(ids[None]),
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    logits = torch.cat(made.logits)
    if model.config.to_dict().get("rope_parameters", {}).get("rope_type") != "dynamic":
        # Under dynamic angles, keys in the cache keep those of their own step.
        check_steps(model, made.sequences[:, :-1], logits)
    return {"greedy_ids": made.sequences[0, len(ids) :], "greedy_logits": logits}


def check_steps(model, fed, steps):
    """Refuses to call golden what transformers itself computes otherwise without its cache."""
    whole = model(input_ids=fed, use_cache=False).logits[0, -len(steps) :]
    distance = ((whole - steps).norm(dim=1) / whole.norm(dim=1)).max()
    if not distance < 1e-5:
        raise SystemExit(f"transformers disagrees with itself: steps are {distance:.1e} from one pass over their ids")


if __name__ == "__main__":
    main()
