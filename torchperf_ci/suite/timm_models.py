"""Image classifiers of timm: the smallest network of each family, with the image size that it is measured at.

The arguments must never change, because a workload's name identifies its series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.suite.building_blocks import cross_entropy
from torchperf_ci.suite.library_model import library_model, noise

if TYPE_CHECKING:
    from torchperf_ci.suite.workload import Workload

_IMAGE_SIZES = {
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


CLASSIFICATION = tuple(timm_classifier(network, size) for network, size in _IMAGE_SIZES.items())
