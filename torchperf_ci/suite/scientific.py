"""Scientific computing workloads: ocean physics, gravity, a learned PDE solver and a graph network."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchperf_ci.suite.building_blocks import adamw, cross_entropy, mean_square
from torchperf_ci.suite.workload import Task, per_device, workload

_INFERENCE = ("inference",)
_DEPTHS = 26  # vertical levels of the ocean workloads


def _polynomial(x: Tensor, *coefficients: float) -> Tensor | float:
    """Evaluate a polynomial by Horner's scheme; the constant term comes first."""
    total: Tensor | float = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def seawater_density(salinity: Tensor, temperature: Tensor, pressure: Tensor) -> Tensor:
    """Return the density in kg/m³ by the International Equation of State of Seawater, EOS-80.

    Salinity is in practical units, temperature in °C (IPTS-68), pressure in bar above the atmosphere. All have the
    same shape.
    Source: Fofonoff & Millard, "Algorithms for computation of fundamental properties of seawater", UNESCO
    Technical Papers in Marine Science 44, 1983.
    """
    at_temperature = partial(_polynomial, temperature)
    root = salinity.sqrt()
    surface = (
        at_temperature(999.842594, 6.793952e-2, -9.095290e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9)
        + at_temperature(8.24493e-1, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9) * salinity
        + at_temperature(-5.72466e-3, 1.0227e-4, -1.6546e-6) * salinity * root
        + 4.8314e-4 * salinity * salinity
    )
    bulk_0 = (
        at_temperature(19652.21, 148.4206, -2.327105, 1.360477e-2, -5.155288e-5)
        + at_temperature(54.6746, -0.603459, 1.09987e-2, -6.1670e-5) * salinity
        + at_temperature(7.944e-2, 1.6483e-2, -5.3009e-4) * salinity * root
    )
    bulk_1 = (
        at_temperature(3.239908, 1.43713e-3, 1.16092e-4, -5.77905e-7)
        + at_temperature(2.2838e-3, -1.0981e-5, -1.6078e-6) * salinity
        + 1.91075e-4 * salinity * root
    )
    bulk_2 = (
        at_temperature(8.50935e-5, -6.12293e-6, 5.2787e-8)
        + at_temperature(-9.9348e-7, 2.0816e-8, 9.1697e-10) * salinity
    )
    return surface / (1 - pressure / (bulk_0 + pressure * (bulk_1 + pressure * bulk_2)))


@workload(
    "scientific/pyhpc_equation_of_state", "ocean physics", batch=per_device(256, 4096), modes=_INFERENCE
)
def pyhpc_equation_of_state(batch: int) -> Task:
    """Seawater density on ``batch`` slices of 128 columns: a long chain of elementwise kernels."""
    shape = (batch, 128, _DEPTHS)
    inputs = (30 + 10 * torch.rand(shape), 30 * torch.rand(shape), 500 * torch.rand(shape))
    return Task(seawater_density, inputs)


def _difference(field: Tensor, dim: int) -> Tensor:
    """Return the periodic central difference, in units of the grid."""
    return 0.5 * (field.roll(-1, dim) - field.roll(1, dim))


def isoneutral_tendency(temperature: Tensor, salinity: Tensor) -> Tensor:
    """Return the tendency of temperature due to mixing along surfaces of equal density, on (batch, x, y, z).

    Uses the diffusion tensor for small slopes (Redi, 1982, J. Phys. Oceanogr. 12), tapered for steep slopes
    (Danabasoglu & McWilliams, 1995, J. Climate 8), and a linear equation of state. Lengths are in units of
    the grid, and z points up.
    """
    steepest, taper_width, least_stratification = 1.0, 0.25, 0.05
    density = 0.78 * salinity - 0.2 * temperature
    density_x, density_y, density_z = (_difference(density, dim) for dim in (1, 2, 3))
    warmth_x, warmth_y, warmth_z = (_difference(temperature, dim) for dim in (1, 2, 3))
    stratification = density_z.clamp(max=-least_stratification)
    slope_x, slope_y = -density_x / stratification, -density_y / stratification
    steepness = slope_x.square() + slope_y.square()
    taper = 0.5 * (1 + torch.tanh((steepest - steepness.sqrt()) / taper_width))
    flux_x = taper * (warmth_x + slope_x * warmth_z)
    flux_y = taper * (warmth_y + slope_y * warmth_z)
    flux_z = taper * (slope_x * warmth_x + slope_y * warmth_y + steepness * warmth_z)
    return _difference(flux_x, 1) + _difference(flux_y, 2) + _difference(flux_z, 3)


@workload("scientific/pyhpc_isoneutral_mixing", "ocean physics", batch=per_device(16, 256), modes=_INFERENCE)
def pyhpc_isoneutral_mixing(batch: int) -> Task:
    """Isoneutral mixing of ``batch`` basins of 32 x 32 columns: a memory-bound stencil."""
    shape = (batch, 32, 32, _DEPTHS)
    depth = torch.linspace(0, 1, _DEPTHS)
    inputs = (20 * depth + torch.rand(shape), 35 - depth + 0.1 * torch.rand(shape))
    return Task(isoneutral_tendency, inputs)


def solve_tridiagonal(lower: Tensor, diagonal: Tensor, upper: Tensor, right: Tensor) -> Tensor:
    """Solve tridiagonal systems along the last dimension with the Thomas algorithm; all shapes are (..., n).

    ``lower[..., 0]`` and ``upper[..., -1]`` are ignored.
    """
    lowers, diagonals, uppers, rights = (part.unbind(-1) for part in (lower, diagonal, upper, right))
    ratios, values = [uppers[0] / diagonals[0]], [rights[0] / diagonals[0]]
    for row in range(1, len(diagonals)):
        pivot = diagonals[row] - lowers[row] * ratios[-1]
        ratios.append(uppers[row] / pivot)
        values.append((rights[row] - lowers[row] * values[-1]) / pivot)
    solution = [values[-1]]
    for ratio, value in zip(reversed(ratios[:-1]), reversed(values[:-1]), strict=True):
        solution.append(value - ratio * solution[-1])
    return torch.stack(solution[::-1], dim=-1)


def advance_turbulent_energy(energy: Tensor, shear: Tensor, buoyancy: Tensor) -> Tensor:
    """Advance turbulent kinetic energy by one implicit step on (batch, columns, depth), in units of grid and step.

    The mixing length is sqrt(2 e) / N, the diffusivity 0.1 l sqrt(e), the dissipation 0.7 e^1.5 / l (Gaspar et al.,
    1990, doi:10.1029/JC095iC09p16179). ``shear`` is the squared shear and ``buoyancy`` is N², both positive.
    """
    speed = energy.sqrt()
    length = (speed * (2 / buoyancy).sqrt()).clamp(min=0.1, max=10)
    diffusivity = 0.1 * length * speed
    between = 0.5 * (diffusivity[..., 1:] + diffusivity[..., :-1])
    above, below = functional.pad(between, (1, 0)), functional.pad(between, (0, 1))
    source = energy + diffusivity * (shear - buoyancy)
    return solve_tridiagonal(-above, 1 + above + below + 0.7 * speed / length, -below, source)


@workload(
    "scientific/pyhpc_turbulent_kinetic_energy", "ocean physics", batch=per_device(64, 1024), modes=_INFERENCE
)
def pyhpc_turbulent_kinetic_energy(batch: int) -> Task:
    """Implicit vertical mixing of ``batch`` slices of 128 columns: sequential over levels, so bound by launches."""
    energy, shear, buoyancy = 0.5 + torch.rand(3, batch, 128, _DEPTHS)
    return Task(advance_turbulent_energy, (energy, shear, buoyancy))


def accelerations(positions: Tensor, masses: Tensor) -> Tensor:
    """Return the gravity on each of (systems, bodies, 3) by all others; G = 1, Plummer softening length 0.1."""
    offsets = positions.unsqueeze(1) - positions.unsqueeze(2)
    inverse_cube = (offsets.square().sum(-1) + 0.01).pow(-1.5)
    return torch.einsum("sij,sijk->sik", masses.unsqueeze(1) * inverse_cube, offsets)


def leapfrog(positions: Tensor, velocities: Tensor, masses: Tensor) -> tuple[Tensor, Tensor]:
    """Advance systems of bodies by 4 steps of 0.001 with the kick-drift-kick leapfrog."""
    step = 1e-3
    for _ in range(4):
        velocities = velocities + 0.5 * step * accelerations(positions, masses)
        positions = positions + step * velocities
        velocities = velocities + 0.5 * step * accelerations(positions, masses)
    return positions, velocities


@workload("scientific/nbody", "gravitation", batch=per_device(1, 128), modes=_INFERENCE)
def nbody(batch: int) -> Task:
    """All pairs of 256 bodies, integrated by leapfrog: broadcasting and reductions."""
    positions, velocities = torch.randn(2, batch, 256, 3)
    return Task(leapfrog, (positions, velocities, torch.rand(batch, 256) / 256))


class _SpectralConv(nn.Module):
    """A linear map of the lowest Fourier modes of (batch, width, size, size)."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, 2 * modes, modes, 2) / width**2)

    def forward(self, x: Tensor) -> Tensor:
        modes = self.modes
        # Half precision has no Fourier transforms and no complex numbers.
        spectrum = torch.fft.rfft2(x.float())
        low = torch.cat((spectrum[..., :modes, :modes], spectrum[..., -modes:, :modes]), dim=-2)
        mixed = torch.einsum("bixy,ioxy->boxy", low, torch.view_as_complex(self.weight.float()))
        padded = functional.pad(mixed, (0, spectrum.shape[-1] - modes))
        gap = x.shape[-2] - 2 * modes
        negative = functional.pad(padded[..., modes:, :], (0, 0, gap, 0))
        full = torch.cat((padded[..., :modes, :], negative), dim=-2)
        field = torch.fft.irfft2(full, s=x.shape[-2:])
        return field.to(x.dtype)


class _FourierLayer(nn.Module):
    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.spectral = _SpectralConv(width, modes)
        self.local = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(self.spectral(x) + self.local(x))


@workload("scientific/fourier_neural_operator", "partial differential equations", batch=per_device(1, 128))
def fourier_neural_operator(batch: int) -> Task:
    """The two-dimensional Fourier neural operator (Li et al., 2020, arXiv:2010.08895): 12 modes, width 32."""
    width = 32
    model = nn.Sequential(
        nn.Conv2d(3, width, 1),
        *(_FourierLayer(width, modes=12) for _ in range(4)),
        nn.Conv2d(width, 128, 1),
        nn.GELU(),
        nn.Conv2d(128, 1, 1),
    )
    return Task(model, (torch.randn(batch, 3, 64, 64),), mean_square, adamw)


class _GraphConv(nn.Module):
    """Sums the messages of a node's neighbors, each divided by the square root of the product of both degrees."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        ones = torch.ones_like(source, dtype=nodes.dtype)
        degree = nodes.new_ones(len(nodes)).index_add(0, target, ones)  # a node is its own neighbor
        scale = degree.rsqrt().unsqueeze(-1)
        features = self.linear(nodes) * scale
        return scale * features.index_add(0, target, features[source])


class _GraphNetwork(nn.Module):
    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_GraphConv(*pair) for pair in pairwise(widths))

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers:
            nodes = functional.relu(layer(nodes, edges))
        return nodes


@workload("scientific/basic_gnn_gcn", "node classification", batch=per_device(16, 256))
def basic_gnn_gcn(batch: int) -> Task:
    """A graph convolutional network (Kipf & Welling, 2016, arXiv:1609.02907), 256 nodes per graph."""
    first_node = 256 * torch.arange(batch).view(batch, 1)
    edges = (first_node + torch.randint(256, (2, batch, 2048))).flatten(1)
    return Task(_GraphNetwork(64, 64, 64, 16), (torch.randn(256 * batch, 64), edges), cross_entropy, adamw)
