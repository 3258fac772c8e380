"""The models in table 1 of the TorchBench paper, and the workload that measures each of them.

Hao et al., TorchBench: Benchmarking PyTorch with High API Surface Coverage, 2023. The paper says 84 models and prints
83 names; two names are misprinted, and four are invented to hide who owns the models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PRINTED = """
alexnet densenet121 mnasnet1_0 mobilenet_v2 mobilenet_v2_quantized_qat mobilenet_v3_large phlippe_densenet
phlippe_resnet resnet152 resnet18 resnet50 resnet50_quantized_qat resnext50_32x4d shufflenet_v2_x1_0
squeezenet1_1 timm_efficientnet timm_nfnet timm_regnet timm_resnest vgg16 detectron2_fasterrcnn_r_101_c4
detectron2_fasterrcnn_r_101_dc5 detectron2_fasterrcnn_r_101_fpn detectron2_fasterrcnn_r_50_c4
detectron2_fasterrcnn_r_50_dc5 detectron2_fasterrcnn_r_50_fpn detectron2_maskrcnn doctr_det_predictor
doctr_reco_predictor timm_efficientdet timm_vovnet vision_maskrcnn timm_vision_transformer_large
pytorch_CycleGAN_and_pix2pix dcgan public_image_generator1 public_image_generator2
detectron2_maskrcnn_r_101_c4 detectron2_maskrcnn_r_101_fpn detectron2_maskrcnn_r_50_c4
detectron2_maskrcnn_r_50_fpn detectron2_fcos_r_50_fpn yolov3 Background_Matting pytorch_unet Super_SloMo
BERT_pytorch hf_Bert hf_Bert_large hf_Longformer fambench_xlmr hf_BigBird hf_Reformer hf_Albert
hf_DistilBert hf_T5 hf_T5_base hf_T5_large hf_Bart hf_public_text_generator1 hf_public_text_generator1_large
attention_is_all_you_need_pytorch fastNLP_Bert nvidia_deeprecommender dlrm drq soft_actor_critic
LearningToPaint speech_transformer demucs tacotron2 tts_angular pytorch_struct
pyhpc_turbulent_kinetic_energy pyhpc_equation_of_state pyhpc_isoneutral_mixing functorch_dp_cifar10
functorch_maml_omniglot opacus_cifar10 moco maml maml_omniglot lennard_jones
"""
PAPER = tuple(_PRINTED.split())
HIDDEN = (
    *("hf_public_text_generator1", "hf_public_text_generator1_large"),
    *("public_image_generator1", "public_image_generator2"),
)
CHECKOUT = "torchbench"
"""The domain of workloads from a TorchBench checkout: the first part of their names."""


@dataclass(frozen=True)
class PaperModel:
    """A model of the paper: its name, our workload and the checkout's workload of that name, or why neither exists."""

    name: str
    ours: str
    checkout: str
    why_not: str


def paper_models(workloads: Mapping[str, object]) -> Iterator[PaperModel]:
    """Yield one entry per name, in the paper's order. ``workloads`` are a catalogue's workloads by name."""
    ours = {name.partition("/")[2]: name for name in workloads if name.partition("/")[0] != CHECKOUT}
    for name in PAPER:
        checkout = f"{CHECKOUT}/{name}"
        there = checkout if checkout in workloads else ""
        missing = "" if name in ours or there else _why_not(name)
        yield PaperModel(name, ours.get(name, ""), there, missing)


def _why_not(name: str) -> str:
    return "the paper hides which model this is" if name in HIDDEN else "the checkout has it no more"
