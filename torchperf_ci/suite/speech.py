"""Speech workloads: recognition, separation, representation and synthesis."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchperf_ci.suite.building_blocks import (
    Residual,
    SelfAttention,
    Transpose,
    adamw,
    cross_entropy,
    mean_square,
    mlp,
    transformer_block,
)
from torchperf_ci.suite.workload import Task, per_device, workload


class _Halved(nn.Module):
    """Returns half the output of a layer, as in the Conformer's two half-step feed-forward layers."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * self.body(x)


def _conformer_block(width: int, heads: int, kernel: int) -> nn.Sequential:
    def feed_forward() -> nn.Module:
        return Residual(nn.LayerNorm(width), _Halved(mlp(width, 4 * width, width, activation=nn.SiLU)))

    convolution = Residual(
        nn.LayerNorm(width),
        Transpose(),
        nn.Conv1d(width, 2 * width, 1),
        nn.GLU(dim=1),
        nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
        nn.BatchNorm1d(width),
        nn.SiLU(),
        nn.Conv1d(width, width, 1),
        Transpose(),
    )
    attention = Residual(nn.LayerNorm(width), SelfAttention(width, heads))
    return nn.Sequential(feed_forward(), attention, convolution, feed_forward(), nn.LayerNorm(width))


class _Conformer(nn.Module):
    """Returns frame-wise logits (batch, frames / 4, classes) for spectrograms (batch, frames, mels)."""

    def __init__(self, mels: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU()
        )
        self.project = nn.Linear(width * mels // 4, width)
        self.blocks = nn.Sequential(*(_conformer_block(width, 4, 31) for _ in range(depth)))
        self.head = nn.Linear(width, classes)

    def forward(self, spectrogram: Tensor) -> Tensor:
        frames = self.subsample(spectrogram.unsqueeze(1)).transpose(1, 2).flatten(2)
        return self.head(self.blocks(self.project(frames)))


@workload("speech/conformer", "speech recognition", batch=per_device(1, 128))
def conformer(batch: int) -> Task:
    """Conformer-S (Gulati et al., 2020, arXiv:2005.08100) with 4 of its 16 blocks and absolute attention."""
    model = _Conformer(mels=80, width=144, depth=4, classes=256)
    return Task(model, (torch.randn(batch, 200, 80),), cross_entropy, adamw)


def _temporal_block(width: int, hidden: int, dilation: int) -> nn.Module:
    return Residual(
        nn.Conv1d(width, hidden, 1),
        nn.PReLU(),
        nn.GroupNorm(1, hidden),
        nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
        nn.PReLU(),
        nn.GroupNorm(1, hidden),
        nn.Conv1d(hidden, width, 1),
    )


class _ConvTasNet(nn.Module):
    """Splits waves (batch, 1, samples) into (batch, speakers, samples) by masks on a learned filter bank."""

    def __init__(self, filters: int, width: int, hidden: int, speakers: int) -> None:
        super().__init__()
        self.speakers = speakers
        self.encoder = nn.Conv1d(1, filters, 16, 8, bias=False)
        blocks = (_temporal_block(width, hidden, 2**level) for _ in range(2) for level in range(6))
        self.separator = nn.Sequential(
            nn.GroupNorm(1, filters),
            nn.Conv1d(filters, width, 1),
            *blocks,
            nn.PReLU(),
            nn.Conv1d(width, speakers * filters, 1),
            nn.Sigmoid(),
        )
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, mixture: Tensor) -> Tensor:
        encoded = functional.relu(self.encoder(mixture))
        masks = self.separator(encoded).unflatten(1, (self.speakers, -1))
        separated = (masks * encoded.unsqueeze(1)).flatten(0, 1)
        return self.decoder(separated).view(len(mixture), self.speakers, -1)


@workload("speech/conv_tasnet", "speech separation", batch=per_device(1, 64))
def conv_tasnet(batch: int) -> Task:
    """Conv-TasNet (Luo & Mesgarani, 2018, arXiv:1809.07454), narrowed, on one second at 8 kHz."""
    model = _ConvTasNet(filters=256, width=128, hidden=256, speakers=2)
    return Task(model, (torch.randn(batch, 1, 8000),), mean_square, adamw)


def _wave_encoder(width: int) -> nn.Sequential:
    kernels_and_strides = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
    layers, channels = list[nn.Module](), 1
    for kernel, stride in kernels_and_strides:
        layers += [nn.Conv1d(channels, width, kernel, stride, bias=False), nn.GroupNorm(1, width), nn.GELU()]
        channels = width
    return nn.Sequential(*layers)


class _ConvolutionalPosition(nn.Module):
    """Relative positions by a wide grouped convolution, added to (batch, frames, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 128, padding=64, groups=16)

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.gelu(self.conv(x.transpose(1, 2))[..., :-1]).transpose(1, 2)


@workload("speech/wav2vec2", "speech representation", batch=per_device(1, 64))
def wav2vec2(batch: int) -> Task:
    """wav2vec 2.0 (Baevski et al., 2020, arXiv:2006.11477), half as wide, with 4 layers, on one second at 16 kHz."""
    channels, width = 256, 384
    model = nn.Sequential(
        _wave_encoder(channels),
        Transpose(),
        nn.LayerNorm(channels),
        nn.Linear(channels, width),
        _ConvolutionalPosition(width),
        *(transformer_block(width, 6) for _ in range(4)),
        nn.LayerNorm(width),
        nn.Linear(width, 320),
    )
    return Task(model, (torch.randn(batch, 1, 16000),), cross_entropy, adamw)


class _LocationAttention(nn.Module):
    """Location-sensitive attention: its input includes the sum (batch, text) of its previous weights."""

    def __init__(self, query: int, memory: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)
        self.memory = nn.Linear(memory, width, bias=False)
        self.location = nn.Sequential(
            nn.Conv1d(1, 32, 31, padding=15, bias=False), Transpose(), nn.Linear(32, width, bias=False)
        )
        self.energy = nn.Linear(width, 1)

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        features = self.query(query).unsqueeze(1) + keys + self.location(seen.unsqueeze(1))
        weights = self.energy(features.tanh()).squeeze(-1).softmax(-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), seen + weights


class _Decoder(nn.Module):
    """Predicts each frame of (batch, frames, mels) from the frames before it and a text memory."""

    def __init__(self, mels: int, memory: int, width: int) -> None:
        super().__init__()
        self.prenet = nn.Sequential(mlp(mels, 128, 128), nn.ReLU())
        self.attention_cell = nn.LSTMCell(128 + memory, width)
        self.attention = _LocationAttention(width, memory, 128)
        self.decoder_cell = nn.LSTMCell(width + memory, width)
        self.project = nn.Linear(width + memory, mels)

    def forward(self, memory: Tensor, frames: Tensor) -> Tensor:
        zeros = memory.new_zeros(len(memory), self.attention_cell.hidden_size)
        attending, decoding = (zeros, zeros), (zeros, zeros)
        context, seen = torch.zeros_like(memory[:, 0]), torch.zeros_like(memory[..., 0])
        keys = self.attention.memory(memory)
        outputs = []
        for frame in self.prenet(functional.pad(frames, (0, 0, 1, -1))).unbind(1):
            attending = self.attention_cell(torch.cat((frame, context), dim=1), attending)
            context, seen = self.attention(attending[0], keys, memory, seen)
            decoding = self.decoder_cell(torch.cat((attending[0], context), dim=1), decoding)
            outputs.append(self.project(torch.cat((decoding[0], context), dim=1)))
        return torch.stack(outputs, dim=1)


def _conv_stack(widths: tuple[int, ...], activation: type[nn.Module]) -> nn.Sequential:
    layers = [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Conv1d(before, after, 5, padding=2), nn.BatchNorm1d(after), activation())
    ]
    return nn.Sequential(*layers[:-1])


class _Tacotron2(nn.Module):
    def __init__(self, width: int, mels: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(148, width)
        self.convs = nn.Sequential(_conv_stack((width,) * 4, nn.ReLU), nn.ReLU())
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.decoder = _Decoder(mels, width, 2 * width)
        self.postnet = _conv_stack((mels, width, width, width, width, mels), nn.Tanh)

    def forward(self, text: Tensor, frames: Tensor) -> Tensor:
        convolved = self.convs(self.characters(text).transpose(1, 2)).transpose(1, 2)
        coarse = self.decoder(self.lstm(convolved)[0], frames)
        details = self.postnet(coarse.transpose(1, 2))
        return coarse + details.transpose(1, 2)


@workload("speech/tacotron2", "speech synthesis", batch=per_device(2, 64))
def tacotron2(batch: int) -> Task:
    """Tacotron 2 (Shen et al., 2017, arXiv:1712.05884), half as wide, decoding 16 frames sequentially."""
    inputs = (torch.randint(148, (batch, 32)), torch.randn(batch, 16, 80))
    return Task(_Tacotron2(width=256, mels=80), inputs, mean_square, adamw)
