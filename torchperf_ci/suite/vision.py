"""Vision workloads: convolutional networks, a Vision Transformer, and gradients by function transforms."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from torchperf_ci.suite.building_blocks import (
    ADAM_EPSILON,
    Residual,
    adamw,
    cross_entropy,
    mean,
    momentum_sgd,
    transformer_block,
)
from torchperf_ci.suite.workload import Task, per_device, workload


def _conv_norm(
    channels_in: int, channels_out: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, nn.Module]:
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    # Initialization by He et al.; with torch's default, the output of deep models in eval mode ignores their input.
    nn.init.kaiming_normal_(conv.weight)
    return conv, nn.BatchNorm2d(channels_out)


class _BasicBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_conv_norm(channels_in, channels_out, 3, stride=stride),
            nn.ReLU(),
            *_conv_norm(channels_out, channels_out, 3),
        )
        same = stride == 1 and channels_in == channels_out
        projection = () if same else _conv_norm(channels_in, channels_out, 1, stride=stride)
        self.shortcut = nn.Sequential(*projection)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


@workload("vision/resnet18", "image classification", batch=per_device(1, 128))
def resnet18(batch: int) -> Task:
    """ResNet-18 (He et al., 2015, arXiv:1512.03385)."""
    stages = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
    blocks = [
        block
        for channels_in, channels_out, stride in stages
        for block in (
            _BasicBlock(channels_in, channels_out, stride),
            _BasicBlock(channels_out, channels_out, 1),
        )
    ]
    model = nn.Sequential(
        *_conv_norm(3, 64, 7, stride=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 1000),
    )
    return Task(model, (torch.randn(batch, 3, 224, 224),), cross_entropy, momentum_sgd)


def _inverted_residual(channels_in: int, channels_out: int, stride: int, expansion: int) -> nn.Module:
    hidden = channels_in * expansion
    expand = (*_conv_norm(channels_in, hidden, 1), nn.ReLU6()) if expansion > 1 else ()
    body = (
        *expand,
        *_conv_norm(hidden, hidden, 3, stride=stride, groups=hidden),
        nn.ReLU6(),
        *_conv_norm(hidden, channels_out, 1),
    )
    keeps_shape = stride == 1 and channels_in == channels_out
    return Residual(*body) if keeps_shape else nn.Sequential(*body)


@workload("vision/mobilenet_v2", "image classification", batch=per_device(1, 128))
def mobilenet_v2(batch: int) -> Task:
    """MobileNetV2 (Sandler et al., 2018, arXiv:1801.04381), with depthwise convolutions."""
    stages = (  # expansion, channels, blocks, stride: Table 2 of the paper
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    blocks, channels = list[nn.Module](), 32
    for expansion, channels_out, count, first_stride in stages:
        for stride in (first_stride, *[1] * (count - 1)):
            blocks.append(_inverted_residual(channels, channels_out, stride, expansion))
            channels = channels_out
    model = nn.Sequential(
        *_conv_norm(3, 32, 3, stride=2),
        nn.ReLU6(),
        *blocks,
        *_conv_norm(channels, 1280, 1),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1280, 1000),
    )
    return Task(model, (torch.randn(batch, 3, 224, 224),), cross_entropy, momentum_sgd)


def _double_conv(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        *_conv_norm(channels_in, channels_out, 3),
        nn.ReLU(),
        *_conv_norm(channels_out, channels_out, 3),
        nn.ReLU(),
    )


class _UNet(nn.Module):
    """A contracting and an expanding path, joined by concatenation at every resolution."""

    def __init__(self, channels: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double_conv(*pair) for pair in pairwise((3, *channels)))
        rising = tuple(pairwise(reversed(channels)))
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(deep, flat, 2, 2) for deep, flat in rising)
        self.up = nn.ModuleList(_double_conv(deep, flat) for deep, flat in rising)
        self.head = nn.Conv2d(channels[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for stage in self.down:
            x = stage(functional.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        for enlarge, stage, skip in zip(self.enlarge, self.up, reversed(skips[:-1]), strict=True):
            x = stage(torch.cat((skip, enlarge(x)), dim=1))
        return self.head(x).movedim(1, -1)


@workload("vision/pytorch_unet", "image segmentation", batch=per_device(1, 64))
def pytorch_unet(batch: int) -> Task:
    """U-Net (Ronneberger et al., 2015, arXiv:1505.04597), half as wide, on 128 x 128 crops."""
    return Task(_UNet((32, 64, 128, 256, 512), classes=2), (torch.randn(batch, 3, 128, 128),), cross_entropy)


def _generator() -> nn.Sequential:
    widths = (512, 256, 128, 64)
    grow = [
        layer
        for wide, narrow in pairwise(widths)
        for layer in (
            nn.ConvTranspose2d(wide, narrow, 4, 2, 1, bias=False),
            nn.BatchNorm2d(narrow),
            nn.ReLU(),
        )
    ]
    first = (nn.ConvTranspose2d(100, widths[0], 4, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU())
    return nn.Sequential(*first, *grow, nn.ConvTranspose2d(widths[-1], 3, 4, 2, 1, bias=False), nn.Tanh())


def _discriminator() -> nn.Sequential:
    widths = (64, 128, 256, 512)
    shrink = [
        layer
        for narrow, wide in pairwise(widths)
        for layer in (nn.Conv2d(narrow, wide, 4, 2, 1, bias=False), nn.BatchNorm2d(wide), nn.LeakyReLU(0.2))
    ]
    first = (nn.Conv2d(3, widths[0], 4, 2, 1, bias=False), nn.LeakyReLU(0.2))
    return nn.Sequential(*first, *shrink, nn.Conv2d(widths[-1], 1, 4, bias=False), nn.Flatten())


def _non_saturating(logits: Tensor) -> Tensor:
    return functional.softplus(-logits.float()).mean()


@workload("vision/dcgan", "image generation", batch=per_device(4, 512))
def dcgan(batch: int) -> Task:
    """DCGAN (Radford et al., 2015, arXiv:1511.06434): a step of the generator, through the discriminator."""
    model = nn.Sequential(_generator(), _discriminator())
    optimizer = partial(torch.optim.Adam, lr=2e-4, betas=(0.5, 0.999), eps=ADAM_EPSILON)
    return Task(model, (torch.randn(batch, 100, 1, 1),), _non_saturating, optimizer)


class _VisionTransformer(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, patch: int, image: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 1 + (image // patch) ** 2, width) * 0.02)
        blocks = (transformer_block(width, heads) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks, nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.summary.expand(len(images), -1, -1), patches), dim=1) + self.position
        return self.head(self.blocks(tokens)[:, 0])


@workload("vision/vision_transformer", "image classification", batch=per_device(1, 128))
def vision_transformer(batch: int) -> Task:
    """ViT-Ti/16 (Dosovitskiy et al., 2020, arXiv:2010.11929; Touvron et al., 2020, arXiv:2012.12877)."""
    model = _VisionTransformer(width=192, depth=12, heads=3, patch=16, image=224)
    return Task(model, (torch.randn(batch, 3, 224, 224),), cross_entropy, adamw)


def _classification_loss(
    net: nn.Module, parameters: dict[str, Tensor], images: Tensor, labels: Tensor
) -> Tensor:
    logits = functional_call(net, parameters, (images,))
    return functional.cross_entropy(logits.float(), labels)


class _PrivateGradient(nn.Module):
    """Returns the mean of clipped per-sample gradients: DP-SGD without noise, so that the output is deterministic."""

    def __init__(self, net: nn.Module, clip: float) -> None:
        super().__init__()
        self.net = net
        self.clip = clip

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        parameters = {name: value.detach() for name, value in self.net.named_parameters()}
        gradient = grad(partial(_classification_loss, self.net))
        samples = vmap(gradient, in_dims=(None, 0, 0))(parameters, images.unsqueeze(1), labels.unsqueeze(1))
        squares = torch.stack([g.flatten(1).float().square().sum(1) for g in samples.values()])
        weights = (self.clip / squares.sum(0).sqrt().clamp(min=self.clip)).to(images.dtype) / len(images)
        return tuple(torch.tensordot(weights, g, dims=1) for g in samples.values())


@workload(
    "vision/functorch_dp_cifar10", "per-sample gradients", batch=per_device(8, 256), modes=("inference",)
)
def functorch_dp_cifar10(batch: int) -> Task:
    """Per-sample gradients by vmap over grad, as in DP-SGD (Abadi et al., 2016, arXiv:1607.00133)."""
    widths = (3, 32, 64, 128)
    convs = [
        layer
        for narrow, wide in pairwise(widths)
        for layer in (
            nn.Conv2d(narrow, wide, 3, padding=1),
            nn.GroupNorm(8, wide),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
    ]
    net = nn.Sequential(*convs, nn.Flatten(), nn.Linear(128 * 4 * 4, 10))
    inputs = (torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,)))
    return Task(_PrivateGradient(net, clip=1.0), inputs)


class _MetaLearner(nn.Module):
    """Returns the losses (tasks,) on the query sets after one gradient step on the support sets."""

    def __init__(self, net: nn.Module, rate: float) -> None:
        super().__init__()
        self.net = net
        self.rate = rate

    def forward(self, support: Tensor, support_labels: Tensor, query: Tensor, query_labels: Tensor) -> Tensor:
        return vmap(self._adapted_loss)(support, support_labels, query, query_labels)

    def _adapted_loss(self, support: Tensor, labels: Tensor, query: Tensor, query_labels: Tensor) -> Tensor:
        loss = partial(_classification_loss, self.net)
        parameters: dict[str, Tensor] = dict(self.net.named_parameters())
        gradient = grad(loss)(parameters, support, labels)
        adapted = {name: value - self.rate * gradient[name] for name, value in parameters.items()}
        return loss(adapted, query, query_labels)


@workload("vision/functorch_maml_omniglot", "meta-learning", batch=per_device(2, 64))
def functorch_maml_omniglot(batch: int) -> Task:
    """MAML (Finn et al., 2017, arXiv:1703.03400): 5-way 5-shot, second-order, a vmap over ``batch`` tasks."""
    convs = [
        layer
        for channels in (1, 64, 64, 64)
        for layer in (
            nn.Conv2d(channels, 64, 3, stride=2, padding=1),
            nn.BatchNorm2d(64, track_running_stats=False),
            nn.ReLU(),
        )
    ]
    net = nn.Sequential(*convs, nn.Flatten(), nn.Linear(64 * 2 * 2, 5))
    images, labels = torch.randn(2, batch, 25, 1, 28, 28), torch.arange(25).remainder(5).expand(batch, 25)
    inputs = (images[0], labels.contiguous(), images[1], labels.contiguous())
    return Task(_MetaLearner(net, rate=0.4), inputs, mean, adamw)
