"""Models by the names of their architectures, with settings. To list them, nothing is imported or needed.

torchperf run --suite examples/architectures.py --mode inference,training
"""

from __future__ import annotations

from torchperf_ci.suite import huggingface

SMALL = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}

bert = huggingface("language/bert_2_layers", "bert", tokens=64, batch=4, **SMALL)
classifier = huggingface(
    "language/bert_classifier", "bert", model="BertForSequenceClassification", tokens=64, batch=4, **SMALL
)
vit = huggingface("vision/vit_2_layers", "vit", image_size=64, batch=4, **SMALL)
