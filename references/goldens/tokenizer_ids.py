#!/usr/bin/env python3
"""Stores the ids that Python's `tokenizers` gives a list of awkward texts, for every tokenizer in a folder.

    python3 tokenizer_ids.py [--train] [--smollm2 FOLDER]

Writes ../tests/tokenizers/stress.json from the tokenizer.json files beside it and the demo's own. --train makes the
small tokenizers first: one of each model kind and of each way that families cut text. Training breaks ties by chance:
the files are then others. --smollm2 adds SmolLM2-135M's, whose tokenizer.json is too large to keep here.
"""

import argparse
import json
import pathlib

import tokenizers

from stress import CORPUS, TEXTS
from tokenizer_kinds import KINDS

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "tests" / "tokenizers"
SMOLLM2 = "smollm2-135m"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--train", action="store_true")
    arguments.add_argument("--smollm2", type=pathlib.Path)
    arguments = arguments.parse_args()
    FOLDER.mkdir(exist_ok=True)
    if arguments.train:
        for name, kind in KINDS.items():
            kind(CORPUS).save(str(FOLDER / f"{name}.json"), pretty=False)
    files = {path.stem: path for path in sorted(FOLDER.glob("*.json")) if path.stem != "stress"}
    files["demo"] = HERE.parent / "demo" / "tokenizer.json"
    stored = json.loads((FOLDER / "stress.json").read_text()) if (FOLDER / "stress.json").exists() else None
    if arguments.smollm2:
        files[SMOLLM2] = arguments.smollm2 / "tokenizer.json"
    elif stored and SMOLLM2 in stored["ids"] and stored["texts"] != TEXTS:
        raise SystemExit("the texts have changed: --smollm2 is needed to store that tokenizer's ids again")
    ids = {name: encoded(path) for name, path in files.items()}
    if not arguments.smollm2 and stored and SMOLLM2 in stored["ids"]:
        ids[SMOLLM2] = stored["ids"][SMOLLM2]
    write({"tokenizers": tokenizers.__version__, "texts": TEXTS, "ids": ids})


def encoded(path):
    """Of each text, the ids with and without what the post-processor adds."""
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return [[tokenizer.encode(text, add_special_tokens=special).ids for special in (True, False)] for text in TEXTS]


def write(stored):
    """One line a text, in ASCII: what looks alike is told apart."""

    def lines(entries):
        return ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)

    ids = ",\n".join(f"{json.dumps(name)}: [\n{lines(stored['ids'][name])}\n]" for name in sorted(stored["ids"]))
    head = f'{{"tokenizers": "{stored["tokenizers"]}",\n"texts": [\n{lines(stored["texts"])}\n],\n'
    (FOLDER / "stress.json").write_text(f'{head}"ids": {{\n{ids}\n}}}}\n')


if __name__ == "__main__":
    main()
