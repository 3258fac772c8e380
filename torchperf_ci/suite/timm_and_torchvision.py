"""Networks of timm and torchvision: classifiers, and for videos, segmentation and optical flow.

Of timm it is the smallest network of each family. The arguments, which include the size of the images, must never
change, because a workload's name identifies its series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.suite.building_blocks import cross_entropy
from torchperf_ci.suite.library_model import library_model, noise, regression_loss

if TYPE_CHECKING:
    from torchperf_ci.suite.workload import Loss, Workload

_TIMM = {
    "botnet26t_256": 256,
    "coat_lite_tiny": 224,
    "convit_tiny": 224,
    "dla34": 128,
    "edgenext_xx_small": 128,
    "efficientnet_b0": 128,
    "efficientvit_b0": 128,
    "ese_vovnet19b_dw": 128,
    "fastvit_t8": 128,
    "focalnet_tiny_srf": 128,
    "ghostnetv2_100": 128,
    "gmlp_ti16_224": 224,
    "halonet26t": 256,
    "lambda_resnet26t": 256,
    "levit_128s": 224,
    "mambaout_femto": 128,
    "mobilevitv2_050": 128,
    "mvitv2_tiny": 224,
    "nfnet_l0": 64,
    "poolformer_s12": 128,
    "pvt_v2_b0": 128,
    "repvit_m0_9": 128,
    "resnest14d": 128,
    "rexnet_100": 128,
    "swinv2_cr_tiny_224": 224,
    "tiny_vit_5m_224": 224,
    "xcit_nano_12_p16_224": 224,
}


def timm_classifier(network: str, image_size: int) -> Workload:
    """Return a workload for a network, given by timm's name for it, on square images."""
    return library_model(
        f"vision/timm_{network}",
        "image classification",
        "timm.create_model",
        {"model_name": network, "pretrained": False},
        noise((3, image_size, image_size)),
        requires=("timm", "torchvision"),
        loss=cross_entropy,
    )


TIMM = tuple(timm_classifier(network, size) for network, size in _TIMM.items())


_TORCHVISION = {
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
_VIDEOS = {
    "mc3_18": (3, 8, 32, 32),
    "r2plus1d_18": (3, 8, 32, 32),
    "swin3d_t": (3, 8, 64, 64),
}
_SEGMENTED = {
    "deeplabv3_mobilenet_v3_large": 128,
    "fcn_resnet50": 96,
    "lraspp_mobilenet_v3_large": 128,
}


def torchvision_classifier(network: str, image_size: int) -> Workload:
    """Return a workload for a network, given by torchvision's name for it, on square images."""
    size = (3, image_size, image_size)
    return _of_torchvision(network, "image classification", size, cross_entropy)


def _of_torchvision(
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


TORCHVISION = tuple(torchvision_classifier(network, size) for network, size in _TORCHVISION.items())
VIDEO = tuple(
    _of_torchvision(network, "video classification", size, cross_entropy) for network, size in _VIDEOS.items()
)
SEGMENTATION = tuple(
    _of_torchvision(network, "image segmentation", (3, size, size), regression_loss, weights_backbone=None)
    for network, size in _SEGMENTED.items()
)
FLOW = _of_torchvision("raft_small", "optical flow", (3, 128, 128), regression_loss, inputs=2)
