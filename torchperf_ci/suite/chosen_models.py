"""Written by benchmarks/choose_models.py: the models in the order of the suite, and what each covers.

A triple is a family of ATen operators with the dtype and the layout that it ran on. A row has the CPU seconds of a
training step on one thread, or of an inference where there is no training; the triples of both modes; how many of them
no row above has; and how many no other row has.
"""

from __future__ import annotations

from typing import NamedTuple


class ChosenModel(NamedTuple):
    """A row of the table."""

    name: str
    cpu_seconds: float
    triples: int
    adds: int
    alone: int


CHOSEN = (
    ChosenModel("vision/resnet18", 0.221, 29, 29, 0),
    ChosenModel("vision/mobilenet_v2", 0.150, 27, 2, 0),
    ChosenModel("vision/pytorch_unet", 0.283, 25, 6, 1),
    ChosenModel("vision/dcgan", 0.154, 29, 13, 2),
    ChosenModel("vision/vision_transformer", 0.179, 47, 18, 0),
    ChosenModel("vision/functorch_dp_cifar10", 1.636, 50, 23, 1),
    ChosenModel("vision/functorch_maml_omniglot", 0.172, 71, 19, 0),
    ChosenModel("language/BERT_pytorch", 0.851, 48, 4, 0),
    ChosenModel("language/nanogpt", 0.404, 39, 0, 0),
    ChosenModel("language/attention_is_all_you_need_pytorch", 0.440, 49, 4, 1),
    ChosenModel("language/lstm_language_model", 0.164, 25, 3, 0),
    ChosenModel("language/switch_transformer", 0.122, 65, 15, 5),
    ChosenModel("recommendation/dlrm", 0.065, 37, 9, 2),
    ChosenModel("recommendation/two_tower", 0.074, 37, 4, 1),
    ChosenModel("recommendation/nvidia_deeprecommender", 0.132, 17, 2, 2),
    ChosenModel("reinforcement/soft_actor_critic", 0.019, 48, 8, 0),
    ChosenModel("reinforcement/redq", 0.030, 46, 0, 0),
    ChosenModel("reinforcement/dqn", 0.038, 33, 3, 3),
    ChosenModel("speech/conformer", 0.066, 52, 6, 2),
    ChosenModel("speech/conv_tasnet", 0.227, 28, 4, 2),
    ChosenModel("speech/wav2vec2", 0.167, 47, 4, 1),
    ChosenModel("speech/tacotron2", 0.464, 71, 8, 3),
    ChosenModel("scientific/pyhpc_equation_of_state", 0.061, 5, 0, 0),
    ChosenModel("scientific/pyhpc_isoneutral_mixing", 0.016, 11, 1, 0),
    ChosenModel("scientific/pyhpc_turbulent_kinetic_energy", 0.006, 16, 0, 0),
    ChosenModel("scientific/nbody", 0.009, 10, 0, 0),
    ChosenModel("scientific/fourier_neural_operator", 0.076, 53, 33, 30),
    ChosenModel("scientific/basic_gnn_gcn", 0.038, 36, 5, 3),
    ChosenModel("vision/timm_edgenext_xx_small", 0.070, 80, 16, 1),
    ChosenModel("reinforcement/diffusers_planner", 0.028, 39, 6, 3),
    ChosenModel("language/hf_longformer", 0.260, 111, 33, 14),
    ChosenModel("vision/torchvision_mobilenet_v3_small", 0.062, 33, 4, 0),
    ChosenModel("language/hf_bloom", 0.188, 58, 8, 3),
    ChosenModel("vision/timm_ghostnetv2_100", 0.168, 50, 6, 2),
    ChosenModel("vision/timm_xcit_nano_12_p16_224", 0.233, 82, 7, 2),
    ChosenModel("speech/diffusers_stable_audio", 0.056, 50, 1, 1),
    ChosenModel("vision/torchvision_lraspp_mobilenet_v3_large", 0.113, 28, 2, 0),
    ChosenModel("vision/diffusers_unet", 0.526, 63, 9, 1),
    ChosenModel("vision/timm_efficientvit_b0", 0.088, 57, 1, 1),
    ChosenModel("language/hf_electra", 0.094, 37, 1, 0),
    ChosenModel("language/hf_falcon", 0.142, 67, 1, 0),
    ChosenModel("vision/torchvision_alexnet", 0.467, 25, 2, 2),
    ChosenModel("vision/timm_halonet26t", 0.953, 55, 4, 3),
    ChosenModel("vision/torchvision_swin_v2_t", 0.726, 87, 3, 1),
    ChosenModel("vision/timm_dla34", 0.272, 29, 1, 1),
    ChosenModel("vision/diffusers_autoencoder_kl", 0.988, 54, 3, 2),
    ChosenModel("vision/torchvision_deeplabv3_mobilenet_v3_large", 0.410, 30, 1, 1),
    ChosenModel("language/hf_modernbert", 0.418, 62, 1, 1),
    ChosenModel("language/hf_roberta", 0.419, 44, 1, 1),
    ChosenModel("vision/diffusers_vq_vae", 0.936, 56, 2, 2),
    ChosenModel("vision/timm_convit_tiny", 0.478, 55, 1, 1),
    ChosenModel("vision/timm_coat_lite_tiny", 0.661, 58, 1, 1),
    ChosenModel("vision/diffusers_video_unet", 1.350, 57, 2, 2),
    ChosenModel("vision/timm_focalnet_tiny_srf", 0.684, 48, 1, 1),
    ChosenModel("vision/timm_mvitv2_tiny", 1.484, 60, 2, 2),
    ChosenModel("vision/torchvision_swin3d_t", 0.774, 69, 1, 1),
    ChosenModel("vision/timm_lambda_resnet26t", 0.985, 51, 1, 1),
    ChosenModel("language/hf_albert", 0.109, 38, 0, 0),
    ChosenModel("language/hf_bert", 0.123, 37, 0, 0),
    ChosenModel("language/hf_deberta-v2", 0.977, 56, 0, 0),
    ChosenModel("language/hf_distilbert", 0.143, 35, 0, 0),
    ChosenModel("language/hf_fnet", 0.172, 37, 0, 0),
    ChosenModel("vision/diffusers_pixart_transformer", 0.128, 50, 0, 0),
    ChosenModel("vision/diffusers_sd3_transformer", 0.134, 51, 0, 0),
    ChosenModel("vision/diffusers_stable_diffusion_unet", 0.245, 58, 0, 0),
    ChosenModel("vision/timm_botnet26t_256", 0.949, 52, 0, 0),
    ChosenModel("vision/timm_efficientnet_b0", 0.175, 31, 0, 0),
    ChosenModel("vision/timm_ese_vovnet19b_dw", 0.179, 36, 0, 0),
    ChosenModel("vision/timm_fastvit_t8", 0.209, 34, 0, 0),
    ChosenModel("vision/timm_gmlp_ti16_224", 0.467, 37, 0, 0),
    ChosenModel("vision/timm_levit_128s", 0.138, 52, 0, 0),
    ChosenModel("vision/timm_mambaout_femto", 0.167, 43, 0, 0),
    ChosenModel("vision/timm_mobilevitv2_050", 0.088, 41, 0, 0),
    ChosenModel("vision/timm_nfnet_l0", 0.709, 34, 0, 0),
    ChosenModel("vision/timm_poolformer_s12", 0.217, 33, 0, 0),
    ChosenModel("vision/timm_pvt_v2_b0", 0.151, 49, 0, 0),
    ChosenModel("vision/timm_repvit_m0_9", 0.271, 34, 0, 0),
    ChosenModel("vision/timm_resnest14d", 0.261, 37, 0, 0),
    ChosenModel("vision/timm_rexnet_100", 0.135, 39, 0, 0),
    ChosenModel("vision/timm_swinv2_cr_tiny_224", 1.641, 69, 0, 0),
    ChosenModel("vision/timm_tiny_vit_5m_224", 0.875, 50, 0, 0),
    ChosenModel("vision/torchvision_convnext_tiny", 0.714, 41, 0, 0),
    ChosenModel("vision/torchvision_densenet121", 0.425, 36, 0, 0),
    ChosenModel("vision/torchvision_efficientnet_v2_s", 0.524, 31, 0, 0),
    ChosenModel("vision/torchvision_fcn_resnet50", 1.379, 23, 0, 0),
    ChosenModel("vision/torchvision_mc3_18", 0.304, 28, 0, 0),
    ChosenModel("vision/torchvision_mnasnet0_5", 0.069, 29, 0, 0),
    ChosenModel("vision/torchvision_r2plus1d_18", 0.822, 28, 0, 0),
    ChosenModel("vision/torchvision_resnet50", 0.570, 30, 0, 0),
    ChosenModel("vision/torchvision_resnext50_32x4d", 0.584, 30, 0, 0),
    ChosenModel("vision/torchvision_shufflenet_v2_x1_0", 0.063, 40, 0, 0),
    ChosenModel("vision/torchvision_squeezenet1_1", 0.045, 23, 0, 0),
    ChosenModel("vision/torchvision_vit_b_32", 1.478, 43, 0, 0),
)
