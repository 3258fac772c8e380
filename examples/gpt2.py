"""GPT-2 of two layers, by its config of the transformers library: random weights, nothing is downloaded.

torchperf run --suite examples/gpt2.py --mode inference,training
"""

from __future__ import annotations

from transformers import GPT2Config

from torchperf_ci.suite import huggingface

gpt2 = huggingface(
    "language/gpt2_2_layers", GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=4096), batch=2
)
