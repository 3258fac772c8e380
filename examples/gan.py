"""A step with two models and two optimizers: a generative adversarial network.

torchperf run --suite examples/gan.py --mode training --backend eager,inductor
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from torchperf_ci.suite import Task, workload

if TYPE_CHECKING:
    from collections.abc import Callable


@workload("vision/small_gan", "image generation", batch=16, modes=("training",))
def small_gan(batch: int) -> Task:
    generator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4)
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4)

    def step(mark: Callable[[str], None], noise: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        fake = generator(noise)
        of_discriminator.zero_grad()
        judged = (softplus(-discriminator(images)) + softplus(discriminator(fake.detach()))).float().mean()
        judged.backward()
        of_discriminator.step()
        mark("discriminator")
        of_generator.zero_grad()
        fooled = softplus(-discriminator(fake)).float().mean()
        fooled.backward()
        of_generator.step()
        mark("generator")
        return judged, fooled

    models = nn.ModuleDict({"generator": generator, "discriminator": discriminator})
    return Task(models, (torch.randn(batch, 64), torch.randn(batch, 784)), step=step)
