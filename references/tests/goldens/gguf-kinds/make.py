#!/usr/bin/env python3
"""Writes kinds.gguf, two rows of every kind of tensor that is read, and expected.safetensors, what llama.cpp's own Python package
(gguf 0.19.0) says their values are. Needs: pip install gguf numpy safetensors. Deterministic."""
import os

import numpy as np
from gguf import GGMLQuantizationType as Kind, GGUFWriter, dequantize
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file

# Where a block holds its float16 scales; everything else may be any byte.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
ROWS, COLUMNS = 2, 512

here = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(11)
writer = GGUFWriter(os.path.join(here, "kinds.gguf"), "qwen2")
expected = {}
for name in ["F32", "F16", "BF16", *SCALES]:
    kind = Kind[name]
    block, size = GGML_QUANT_SIZES[kind]
    if name in SCALES:
        stored = random.integers(0, 256, (ROWS * COLUMNS // block, size), dtype=np.uint8)
        for place in SCALES[name]:
            scales = random.uniform(-0.05, 0.05, len(stored)).astype(np.float16)
            stored[:, place:place + 2] = scales.view(np.uint8).reshape(-1, 2)
        stored = stored.reshape(ROWS, -1)
    else:
        values = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        stored = {"F32": values, "F16": values.astype(np.float16), "BF16": bits}[name].view(np.uint8)
    writer.add_tensor(f"kind.{name}", stored, raw_dtype=kind)
    expected[f"kind.{name}"] = np.ascontiguousarray(dequantize(stored, kind).astype(np.float32).reshape(ROWS, COLUMNS))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
save_file(expected, os.path.join(here, "expected.safetensors"))
