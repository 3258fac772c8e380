"""Recommendation workloads: models bound by embedding look-ups, and one bound by its optimizer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchperf_ci.suite.building_blocks import binary_cross_entropy, mean_square, mlp, momentum_sgd
from torchperf_ci.suite.workload import Task, per_device, workload


class _Dlrm(nn.Module):
    """Click logits (batch, 1) from dense features and bags of indices, with one table per categorical feature."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(mlp(13, 512, 256, width), nn.ReLU())
        vectors = tables + 1
        self.top = mlp(width + vectors * (vectors - 1) // 2, 512, 256, 1)
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, -1))
        self.pairs: Tensor

    def forward(self, dense: Tensor, bags: Tensor) -> Tensor:
        bottom = self.bottom(dense)
        embedded = [table(bag) for table, bag in zip(self.tables, bags, strict=True)]
        vectors = torch.stack((bottom, *embedded), dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        interactions = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((bottom, interactions), dim=1))


@workload("recommendation/dlrm", "click-through prediction", batch=per_device(256, 16384))
def dlrm(batch: int) -> Task:
    """DLRM (Naumov et al., 2019, arXiv:1906.00091): 26 tables of 10,000 rows, 8 indices per bag."""
    tables, rows = 26, 10000
    inputs = (torch.randn(batch, 13), torch.randint(rows, (tables, batch, 8)))
    return Task(_Dlrm(tables, rows, width=32), inputs, binary_cross_entropy)


class _Tower(nn.Module):
    """A unit vector (batch, 64) from an identity and the mean of a history."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.identity = nn.Embedding(rows, 64)
        self.history = nn.EmbeddingBag(rows, 64, mode="mean")
        self.mix = mlp(128, 256, 64)

    def forward(self, identity: Tensor, history: Tensor) -> Tensor:
        features = torch.cat((self.identity(identity), self.history(history)), dim=1)
        return functional.normalize(self.mix(features), dim=1)


class _TwoTower(nn.Module):
    """Similarity (batch, batch) of every query with every item of the batch."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.query = _Tower(rows)
        self.item = _Tower(rows)

    def forward(self, user: Tensor, history: Tensor, item: Tensor, tags: Tensor) -> Tensor:
        return self.query(user, history) @ self.item(item, tags).T / 0.05


def _in_batch_softmax(similarity: Tensor) -> Tensor:
    return functional.cross_entropy(
        similarity.float(), torch.arange(len(similarity), device=similarity.device)
    )


@workload("recommendation/two_tower", "retrieval", batch=per_device(1024, 8192))
def two_tower(batch: int) -> Task:
    """A two-tower model trained with a softmax over the batch (Yi et al., 2019, doi:10.1145/3298689.3346996)."""
    rows = 50000
    user, item = torch.randint(rows, (2, batch))
    history, tags = torch.randint(rows, (2, batch, 16))
    return Task(_TwoTower(rows), (user, history, item, tags), _in_batch_softmax)


@workload("recommendation/nvidia_deeprecommender", "rating prediction", batch=per_device(8, 1024))
def nvidia_deeprecommender(batch: int) -> Task:
    """A deep autoencoder of ratings (Kuchaiev & Ginsburg, 2017, arXiv:1708.01715).

    Weights are wide and samples few, so in training the optimizer takes longer than the matrix products.
    """
    items = 17768
    model = mlp(items, 512, 512, 1024, 512, 512, items, activation=nn.SELU)
    return Task(model, (torch.randn(batch, items),), mean_square, momentum_sgd)
