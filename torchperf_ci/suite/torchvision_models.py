"""Networks of torchvision for image and video classification, segmentation and optical flow.

The arguments must never change, because a workload's name identifies its series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.suite.building_blocks import cross_entropy
from torchperf_ci.suite.library_model import library_model, noise, regression_loss

if TYPE_CHECKING:
    from torchperf_ci.suite.workload import Loss, Workload

_IMAGE_SIZES = {
    "alexnet": 128,
    "convnext_tiny": 128,
    "densenet121": 128,
    "efficientnet_v2_s": 128,
    "mnasnet0_5": 128,
    "mobilenet_v3_small": 128,
    "resnet50": 128,
    "resnext50_32x4d": 128,
    "shufflenet_v2_x1_0": 128,
    "squeezenet1_1": 128,
    "swin_v2_t": 128,
    "vit_b_32": 224,
}
_VIDEO_SIZES = {
    "mc3_18": (3, 8, 32, 32),
    "r2plus1d_18": (3, 8, 32, 32),
    "swin3d_t": (3, 8, 64, 64),
}
_SEGMENTED_IMAGE_SIZES = {
    "deeplabv3_mobilenet_v3_large": 128,
    "fcn_resnet50": 96,
    "lraspp_mobilenet_v3_large": 128,
}


def torchvision_classifier(network: str, image_size: int) -> Workload:
    """Return a workload for a network, given by torchvision's name for it, on square images."""
    size = (3, image_size, image_size)
    return _workload(network, "image classification", size, cross_entropy)


def _workload(
    network: str, task: str, size: tuple[int, ...], loss: Loss, inputs: int = 1, **more: None
) -> Workload:
    return library_model(
        f"vision/torchvision_{network}",
        task,
        "torchvision.models.get_model",
        {"name": network, "weights": None, **more},
        noise(*(size,) * inputs),
        requires=("torchvision",),
        loss=loss,
    )


CLASSIFICATION = tuple(torchvision_classifier(network, size) for network, size in _IMAGE_SIZES.items())
VIDEO = tuple(
    _workload(network, "video classification", size, cross_entropy) for network, size in _VIDEO_SIZES.items()
)
SEGMENTATION = tuple(
    _workload(network, "image segmentation", (3, size, size), regression_loss, weights_backbone=None)
    for network, size in _SEGMENTED_IMAGE_SIZES.items()
)
FLOW = _workload("raft_small", "optical flow", (3, 128, 128), regression_loss, inputs=2)
