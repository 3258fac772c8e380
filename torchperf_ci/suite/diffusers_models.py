"""Small networks of the diffusers library: denoisers, and autoencoders of images.

The arguments must never change, because a workload's name identifies its series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torchperf_ci.suite.library_model import library_model, noise, regression_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.suite.workload import Workload

_STEPS = 1000
"""Number of time steps of a diffusion."""
_TEXT = (16, 64)
"""Tokens and width of the text embedding that generation is conditioned on."""

_SMALL = {"num_layers": 2, "attention_head_dim": 32, "num_attention_heads": 8}
"""What the transformers have in common, and below, those that attend to a text."""
_CROSSED = {"block_out_channels": (64, 128), "cross_attention_dim": 64, "attention_head_dim": 16}


def _denoised(**sizes: tuple[int, ...]) -> Callable[[int], Mapping[str, torch.Tensor]]:
    """Return a function from batch size to inputs: normal random numbers by name, and the time step of each sample."""

    def inputs(batch: int) -> Mapping[str, torch.Tensor]:
        given = {name: torch.randn(batch, *size) for name, size in sizes.items()}
        return given | {"timestep": torch.randint(_STEPS, (batch,))}

    return inputs


def _workload(
    name: str,
    task: str,
    model: str,
    inputs: Callable[[int], Mapping[str, torch.Tensor] | tuple[torch.Tensor, ...]],
    **arguments: object,
) -> Workload:
    return library_model(
        name, task, f"diffusers.{model}", arguments, inputs, requires=("diffusers",), loss=regression_loss
    )


unet = _workload(
    "vision/diffusers_unet",
    "image generation",
    "UNet2DModel",
    _denoised(sample=(3, 32, 32)),
    sample_size=32,
    block_out_channels=(64, 128, 128),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
)
unet_condition = _workload(
    "vision/diffusers_stable_diffusion_unet",
    "image generation from text",
    "UNet2DConditionModel",
    _denoised(sample=(4, 16, 16), encoder_hidden_states=_TEXT),
    sample_size=16,
    **_CROSSED,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
)
unet_video = _workload(
    "vision/diffusers_video_unet",
    "video generation from text",
    "UNet3DConditionModel",
    _denoised(sample=(4, 4, 16, 16), encoder_hidden_states=_TEXT),
    sample_size=16,
    **_CROSSED,
    down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
    up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
)
autoencoder = _workload(
    "vision/diffusers_autoencoder_kl",
    "image compression",
    "AutoencoderKL",
    noise((3, 64, 64)),
    block_out_channels=(64, 128),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=4,
)
vector_quantisation = _workload(
    "vision/diffusers_vq_vae",
    "image compression",
    "VQModel",
    noise((3, 64, 64)),
    block_out_channels=(64, 128),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
)
transformer_sd3 = _workload(
    "vision/diffusers_sd3_transformer",
    "image generation from text",
    "SD3Transformer2DModel",
    _denoised(hidden_states=(4, 32, 32), encoder_hidden_states=_TEXT, pooled_projections=(64,)),
    sample_size=32,
    in_channels=4,
    **_SMALL,
    joint_attention_dim=64,
    caption_projection_dim=256,
    pooled_projection_dim=64,
    pos_embed_max_size=32,
    out_channels=4,
)
transformer_dit = _workload(
    "vision/diffusers_pixart_transformer",
    "image generation from text",
    "PixArtTransformer2DModel",
    _denoised(hidden_states=(4, 32, 32), encoder_hidden_states=_TEXT),
    sample_size=32,
    **_SMALL,
    cross_attention_dim=256,
    caption_channels=64,
    out_channels=4,
    use_additional_conditions=False,
)
planner = _workload(
    "reinforcement/diffusers_planner",
    "trajectory planning",
    "UNet1DModel",
    _denoised(sample=(14, 32)),
    in_channels=14,
    out_channels=14,
    block_out_channels=(32, 64, 128),
    down_block_types=("DownResnetBlock1D",) * 3,
    up_block_types=("UpResnetBlock1D",) * 2,
    mid_block_type="MidResTemporalBlock1D",
    out_block_type="OutConv1DBlock",
    time_embedding_type="positional",
    use_timestep_embedding=True,
    norm_num_groups=8,
    layers_per_block=1,
    act_fn="mish",
)
stable_audio = _workload(
    "speech/diffusers_stable_audio",
    "sound generation from text",
    "StableAudioDiTModel",
    _denoised(hidden_states=(64, 64), encoder_hidden_states=_TEXT, global_hidden_states=(1, 256)),
    sample_size=64,
    **_SMALL,
    num_key_value_attention_heads=4,
    cross_attention_dim=64,
    cross_attention_input_dim=64,
    global_states_input_dim=256,
    time_proj_dim=64,
)
