"""Language workloads: encoder, decoder, encoder-decoder, recurrent and mixture-of-experts models."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchperf_ci.suite.building_blocks import (
    Residual,
    SelfAttention,
    adamw,
    cross_entropy,
    transformer_block,
)
from torchperf_ci.suite.workload import Task, per_device, workload


class _Bert(nn.Module):
    """Returns logits (batch, masked tokens, vocabulary) for the masked positions only."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.segments = nn.Embedding(2, width)
        self.positions = nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: Tensor, segments: Tensor, masked: Tensor) -> Tensor:
        embedded = self.norm(self.tokens(tokens) + self.segments(segments) + self.positions)
        encoded = self.encoder(embedded)
        chosen = encoded.gather(1, masked.unsqueeze(-1).expand(-1, -1, encoded.shape[-1]))
        return functional.linear(self.transform(chosen), self.tokens.weight, self.bias)


@workload("language/BERT_pytorch", "masked language modelling", batch=per_device(1, 256))
def bert_pytorch(batch: int) -> Task:
    """BERT (Devlin et al., 2018, arXiv:1810.04805) in the size "small" (Turc et al., 2019, arXiv:1908.08962)."""
    vocabulary, length, masked = 30522, 128, 20
    inputs = (
        torch.randint(vocabulary, (batch, length)),
        torch.arange(length).ge(length // 2).long().repeat(batch, 1),
        torch.rand(batch, length).argsort(1)[:, :masked],
    )
    return Task(_Bert(vocabulary, width=512, depth=4, heads=8, length=length), inputs, cross_entropy, adamw)


class _Gpt(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        blocks = (transformer_block(width, heads, causal=True) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return functional.linear(self.blocks(self.tokens(tokens) + self.positions), self.tokens.weight)


@workload("language/nanogpt", "causal language modelling", batch=per_device(1, 128))
def nanogpt(batch: int) -> Task:
    """A character-level GPT-2 (Radford et al., 2019): 6 layers of width 384, 256 characters."""
    model = _Gpt(vocabulary=65, width=384, depth=6, heads=6, length=256)
    return Task(model, (torch.randint(65, (batch, 256)),), cross_entropy, adamw)


class _Translator(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width))
        self.transformer = nn.Transformer(width, 8, depth, depth, 4 * width, dropout=0.0, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(
            target.shape[1], device=target.device, dtype=self.positions.dtype
        )
        decoded = self.transformer(
            self._embed(source), self._embed(target), tgt_mask=mask, tgt_is_causal=True
        )
        return functional.linear(decoded, self.tokens.weight)

    def _embed(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions[: tokens.shape[1]]


@workload("language/attention_is_all_you_need_pytorch", "translation", batch=per_device(1, 256))
def attention_is_all_you_need_pytorch(batch: int) -> Task:
    """``torch.nn.Transformer`` (Vaswani et al., 2017, arXiv:1706.03762), three layers each in encoder and decoder."""
    source, target = torch.randint(8000, (2, batch, 32))
    return Task(_Translator(8000, width=512, depth=3, length=32), (source, target), cross_entropy, adamw)


class _RecurrentLanguageModel(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.tokens(tokens))[0])


@workload("language/lstm_language_model", "causal language modelling", batch=per_device(4, 256))
def lstm_language_model(batch: int) -> Task:
    """A two-layer LSTM over Penn Treebank's 10,000 words (Zaremba et al., 2014, arXiv:1409.2329)."""
    return Task(_RecurrentLanguageModel(10000, 512, 2), (torch.randint(10000, (batch, 35)),), cross_entropy)


class _SwitchLayer(nn.Module):
    """Sends every token to its best expert, which accepts at most ``capacity`` times its fair share of tokens."""

    def __init__(self, width: int, hidden: int, experts: int, capacity: float) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.expand = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.contract = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)
        self.capacity = capacity

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        gate, dispatch = self._route(tokens)
        queued = torch.einsum("tec,tw->ecw", dispatch, tokens)
        done = torch.bmm(functional.relu(torch.bmm(queued, self.expand)), self.contract)
        return (gate * torch.einsum("tec,ecw->tw", dispatch, done)).view_as(x)

    def _route(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weight of each token (tokens, 1) and a one-hot dispatch (tokens, experts, places)."""
        experts = self.router.out_features
        places = int(self.capacity * len(tokens) / experts) + 1
        gate, chosen = self.router(tokens).float().softmax(-1).max(-1)
        one_hot = functional.one_hot(chosen, experts)
        place = (one_hot.cumsum(0) * one_hot).sum(-1) - 1
        # A place beyond the capacity equals none of the places, which drops the token.
        seat = (place.unsqueeze(-1) == torch.arange(places, device=tokens.device)).to(tokens.dtype)
        return gate.to(tokens.dtype).unsqueeze(-1), one_hot.to(tokens.dtype).unsqueeze(-1) * seat.unsqueeze(1)


@workload("language/switch_transformer", "causal language modelling", batch=per_device(1, 32))
def switch_transformer(batch: int) -> Task:
    """A mixture of 8 experts with top-1 routing (Fedus et al., 2021, arXiv:2101.03961)."""
    vocabulary, width = 1000, 256
    layers = [
        layer
        for _ in range(2)
        for layer in (
            Residual(nn.LayerNorm(width), SelfAttention(width, 4, causal=True)),
            Residual(nn.LayerNorm(width), _SwitchLayer(width, 4 * width, experts=8, capacity=1.25)),
        )
    ]
    model = nn.Sequential(nn.Embedding(vocabulary, width), *layers, nn.Linear(width, vocabulary))
    return Task(model, (torch.randint(vocabulary, (batch, 128)),), cross_entropy, adamw)
