"""Inputs by name, as a tokenizer gives them, and a model that returns a dict.

torchperf run --suite examples/keyword_inputs.py --mode inference,training
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchperf_ci.suite import Task, workload

WORDS = 1000


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 64)
        self.layer = nn.TransformerEncoderLayer(
            64, nhead=4, dim_feedforward=256, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(64, WORDS)

    def forward(self, *, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hidden = self.layer(self.embedding(input_ids), src_key_padding_mask=attention_mask == 0)
        logits = self.head(hidden)
        return {
            "logits": logits,
            "loss": nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()),
        }


@workload("language/encoder", "masked language modelling", batch=4)
def encoder(batch: int) -> Task:
    words = torch.randint(WORDS, (batch, 32))
    inputs = {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": words}
    return Task(Encoder(), inputs, loss=lambda output: output["loss"])
