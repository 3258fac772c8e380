"""A model of torchvision. Where that is not installed, `torchperf list` says how to install it, and nothing fails.

torchperf run --suite examples/torchvision_resnet.py --batch-size auto --backend eager,inductor
"""

from __future__ import annotations

import torch

from torchperf_ci.suite import Task, per_device, workload


@workload(
    "vision/torchvision_resnet18",
    "image classification",
    batch=per_device(cpu=1, accelerator=64),
    requires=("torchvision",),
)
def resnet18(batch: int) -> Task:
    from torchvision.models import resnet18

    images = torch.randn(batch, 3, 224, 224)
    return Task(resnet18(weights=None), (images,), loss=lambda logits: logits.float().square().mean())
