#!/usr/bin/env python3
"""Times the float32 reference against transformers, both on the same cores, in turns, and prints ratios of medians.

    python3 against_transformers.py --model FOLDER [--repeats 7] [--cores 2]

Prefill: 16 prompts of 64 tokens, logits at all positions and the default taps kept (embed, each resid_mid and resid_post,
final_norm); transformers at batch 1, 4 and 16, with eager and with sdpa attention, its fastest counts. Decode: 32 greedy
tokens after 64, one prompt and 16; the time of a run with one new token is taken off, so that steps remain. Overhead of the
default taps over logits alone. Peak of anonymous memory while prefilling, as /proc says it.

Needs the packages of ../goldens/requirements.txt, and Cargo, which builds examples/throughput.
"""

import argparse
import gc
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PROMPTS, TOKENS, NEW_TOKENS = 16, 64, 32


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", required=True, type=pathlib.Path, help="checkpoint folder with tokenizer.json")
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--cores", type=int, default=2)
    arguments = arguments.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    for variable in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[variable] = str(arguments.cores)
    os.environ["HF_HUB_OFFLINE"] = "1"
    program = build()
    prompts = some_prompts(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(arguments.model, arguments.cores)
        ours = Ours(program, arguments.model, pathlib.Path(folder))
        measure(arguments, prompts, ours, theirs)
        ours.close()


def measure(arguments, prompts, ours, theirs):
    contestants = {}
    for attention in ("eager", "sdpa"):
        for batch in (1, 4, 16):
            contestants[f"transformers prefill {attention} batch {batch}"] = theirs.prefill(prompts, attention, batch)
        for count in (1, PROMPTS):
            for new in (1, NEW_TOKENS):
                name = f"transformers decode {attention} {count}x{new}"
                contestants[name] = theirs.decode(prompts[:count], attention, new)
    contestants["ours prefill default"] = ours.start("prefill-default", prompts, 0, "default")
    contestants["ours prefill logits"] = ours.start("prefill-logits", prompts, 0, "logits")
    for count in (1, PROMPTS):
        for new in (1, NEW_TOKENS):
            contestants[f"ours decode {count}x{new}"] = ours.start(f"{count}x{new}", prompts[:count], new, "logits")
    seconds = {name: [] for name in contestants}
    for repeat in range(arguments.repeats + 1):
        order = list(contestants)
        random.Random(repeat).shuffle(order)
        for name in order:
            taken = contestants[name]()
            print(f"round {repeat} of {arguments.repeats}, {name}: {taken:.3f} s", file=sys.stderr)
            # The first round warms caches and allocators.
            if repeat:
                seconds[name].append(taken)
    report({name: statistics.median(taken) for name, taken in seconds.items()}, seconds)
    report_memory(ours, prompts, 4 * theirs.models["eager"].num_parameters())


def report(median, seconds):
    print(f"\n{'median s':>9} {'min':>8} {'max':>8}  of {len(next(iter(seconds.values())))} runs in turns")
    for name, taken in seconds.items():
        print(f"{median[name]:9.3f} {min(taken):8.3f} {max(taken):8.3f}  {name}")

    fastest = min((name for name in median if name.startswith("transformers prefill")), key=median.get)
    ratio = median[fastest] / median["ours prefill default"]
    print(f"\nprefill: {ratio:.2f} x transformers at its best ({fastest.removeprefix('transformers prefill ')})")
    for count in (1, PROMPTS):
        steps = {
            who: median[f"{who} {count}x{NEW_TOKENS}"] - median[f"{who} {count}x1"]
            for who in ("ours decode", "transformers decode eager", "transformers decode sdpa")
        }
        ours, made = steps.pop("ours decode"), count * (NEW_TOKENS - 1)
        fastest = min(steps, key=steps.get)
        if ours <= 0 or steps[fastest] <= 0:
            print(f"decode, {count} at once: lost in the noise of this machine")
            continue
        print(
            f"decode, {count} at once: {steps[fastest] / ours:.2f} x transformers ({fastest.split()[-1]}); "
            f"{made / ours:.1f} against {made / steps[fastest]:.1f} tokens/s"
        )
    overhead = median["ours prefill default"] / median["ours prefill logits"] - 1
    print(f"default taps over logits alone: {100 * overhead:+.1f} %")


def report_memory(ours, prompts, weights):
    """Of a process that loads and prefills once, against float32 weights and what it keeps."""
    model = json.loads((ours.model / "config.json").read_text())
    sites = 2 + 2 * model["num_hidden_layers"]
    kept = PROMPTS * TOKENS * 4 * (sites * model["hidden_size"] + model["vocab_size"])
    peak = Peak()
    ours.start("memory", prompts, 0, "default", peak)()
    peak.stop()
    print(
        f"peak anonymous memory: {peak.bytes / 1e6:.0f} MB, {peak.bytes / (weights + kept):.2f} x "
        f"(float32 weights {weights / 1e6:.0f} MB + taps and logits {kept / 1e6:.0f} MB); "
        f"VmHWM {peak.high_water / 1e6:.0f} MB"
    )


def build():
    manifest = HERE.parent / "Cargo.toml"
    command = ["cargo", "build", "--release", "--manifest-path", manifest, "--example", "throughput"]
    built = subprocess.run([*command, "--message-format=json"], check=True, stdout=subprocess.PIPE, text=True)
    messages = map(json.loads, built.stdout.splitlines())
    return next(m["executable"] for m in messages if m.get("target", {}).get("name") == "throughput")


def some_prompts(model):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    texts = (HERE.parent.parent / "prompts" / "default.txt").read_text().splitlines()
    ids = tokenizer.encode("\n".join(texts)).ids
    if len(ids) < PROMPTS * TOKENS:
        raise SystemExit(f"prompts/default.txt has {len(ids)} tokens, {PROMPTS * TOKENS} are needed")
    return [ids[start * TOKENS :][:TOKENS] for start in range(PROMPTS)]


def without_eos(model, folder):
    """The same checkpoint, whose generations go on: both sides are to take as many steps."""
    folder.mkdir()
    config = json.loads((model / "config.json").read_text()) | {"eos_token_id": None}
    (folder / "config.json").write_text(json.dumps(config))
    for file in model.glob("*.safetensors*"):
        (folder / file.name).symlink_to(file)
    return folder


class Ours:
    def __init__(self, program, model, folder):
        self.program, self.folder, self.children = program, folder, []
        self.model = without_eos(model.resolve(), folder / "model")

    def start(self, name, prompts, new_tokens, taps, peak=None):
        """A process that has loaded the model, as a function that runs it once and returns its seconds."""
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(prompts))
        command = [self.program, self.model, file, str(new_tokens), taps]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        if peak:
            peak.start(child.pid)
        if child.stdout.readline() != "ready\n":
            raise SystemExit("throughput did not start")

        def run():
            child.stdin.write("\n")
            child.stdin.flush()
            seconds, generated = child.stdout.readline().split()
            if int(generated) != len(prompts) * new_tokens:
                raise SystemExit(f"{name}: {generated} ids generated, expected {len(prompts) * new_tokens}")
            return float(seconds)

        return run

    def close(self):
        for child in self.children:
            child.stdin.close()
            child.wait()


class Theirs:
    def __init__(self, model, cores):
        import torch
        import transformers

        self.torch = torch
        torch.set_num_threads(cores)
        torch.set_grad_enabled(False)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        print(f"transformers {transformers.__version__}, torch {torch.__version__}, {cores} cores")
        load = transformers.AutoModelForCausalLM.from_pretrained
        self.models = {
            attention: load(model, attn_implementation=attention, dtype=torch.float32).eval()
            for attention in ("eager", "sdpa")
        }

    def prefill(self, prompts, attention, batch):
        model = self.models[attention]
        batches = [self.torch.tensor(prompts[start : start + batch]) for start in range(0, len(prompts), batch)]

        def run():
            gc.collect()
            begun = time.perf_counter()
            kept = []
            hooks = self.taps(model, kept)
            for ids in batches:
                kept.append(model(input_ids=ids, use_cache=True).logits)
            for hook in hooks:
                hook.remove()
            return time.perf_counter() - begun

        return run

    def taps(self, model, kept):
        """Keeps the tensors themselves: nothing is cheaper."""
        body = model.model

        def output(_module, _inputs, result):
            kept.append(result[0] if isinstance(result, tuple) else result)

        def first_input(_module, inputs):
            kept.append(inputs[0])

        hooks = [body.embed_tokens.register_forward_hook(output), body.norm.register_forward_hook(output)]
        for block in body.layers:
            hooks.append(block.post_attention_layernorm.register_forward_pre_hook(first_input))
            hooks.append(block.register_forward_hook(output))
        return hooks

    def decode(self, prompts, attention, new_tokens):
        model, prompts = self.models[attention], self.torch.tensor(prompts)

        def run():
            gc.collect()
            begun = time.perf_counter()
            fed, cache = prompts, None
            for _ in range(new_tokens):
                made = model(input_ids=fed, cache=cache, use_cache=True, logits_to_keep=1)
                cache = made.cache
                fed = made.logits[:, -1].argmax(dim=-1, keepdim=True)
            return time.perf_counter() - begun

        return run


class Peak:
    """The most memory that a process has had while it was watched."""

    def __init__(self):
        self.bytes, self.high_water, self.stopped = 0, 0, False

    def start(self, pid):
        self.thread = threading.Thread(target=self.watch, args=[pathlib.Path(f"/proc/{pid}/status")])
        self.thread.start()

    def watch(self, status):
        while not self.stopped:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
            self.bytes = max(self.bytes, 1024 * int(fields["RssAnon"].split()[0]))
            self.high_water = max(self.high_water, 1024 * int(fields["VmHWM"].split()[0]))
            time.sleep(0.002)

    def stop(self):
        self.stopped = True
        self.thread.join()


if __name__ == "__main__":
    main()
