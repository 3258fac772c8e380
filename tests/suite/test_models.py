"""The models are what their papers say: sizes, reference values, and slow ways to the same result."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from torchperf_ci.suite import scientific, vision
from torchperf_ci.suite.building_blocks import SelfAttention
from torchperf_ci.suite.language import _SwitchLayer
from torchperf_ci.suite.registry import catalogue


def built(name: str, batch: int = 1):
    torch.manual_seed(0)
    return catalogue().workloads[name].build(batch)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("vision/resnet18", 11_689_512),
        ("vision/mobilenet_v2", 3_504_872),
        ("vision/vision_transformer", 5_717_416),
        ("vision/dcgan", 3_576_704 + 2_765_568),
    ],
)
def test_a_model_has_the_published_number_of_parameters(name, parameters):
    assert sum(parameter.numel() for parameter in built(name).model.parameters()) == parameters


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("vision/pytorch_unet", (2, 128, 128, 2)),
        ("language/nanogpt", (2, 256, 65)),
        ("recommendation/dlrm", (2, 1)),
        ("speech/conv_tasnet", (2, 2, 8000)),
        ("speech/wav2vec2", (2, 49, 320)),
        ("speech/tacotron2", (2, 16, 80)),
        ("scientific/fourier_neural_operator", (2, 1, 64, 64)),
    ],
)
def test_a_model_returns_what_its_task_needs(name, shape):
    task = built(name, 2)
    with torch.no_grad():
        assert task.model.eval()(*task.inputs).shape == shape


# Salinity, temperature (°C), pressure (bar), density (kg/m³): the check values of UNESCO 44, page 19.
@pytest.mark.parametrize(
    ("salinity", "temperature", "pressure", "density"),
    [
        (0, 5, 0, 999.96675),
        (0, 5, 1000, 1044.12802),
        (0, 25, 0, 997.04796),
        (0, 25, 1000, 1037.90204),
        (35, 5, 0, 1027.67547),
        (35, 5, 1000, 1069.48914),
        (35, 25, 0, 1023.34306),
        (35, 25, 1000, 1062.53817),
    ],
)
def test_seawater_density_matches_the_published_check_values(salinity, temperature, pressure, density):
    state = (torch.tensor(float(value), dtype=torch.float64) for value in (salinity, temperature, pressure))
    assert scientific.seawater_density(*state).item() == pytest.approx(density, abs=5e-6)


def test_the_tridiagonal_solver_agrees_with_a_dense_one():
    torch.manual_seed(0)
    lower, upper, right = torch.randn(3, 4, 9, dtype=torch.float64)
    diagonal = 4 + torch.rand(4, 9, dtype=torch.float64)
    dense = (
        torch.diag_embed(diagonal) + torch.diag_embed(lower[:, 1:], -1) + torch.diag_embed(upper[:, :-1], 1)
    )
    expected = torch.linalg.solve(dense, right)
    torch.testing.assert_close(scientific.solve_tridiagonal(lower, diagonal, upper, right), expected)


def test_mixing_leaves_a_temperature_that_is_constant_along_density_surfaces():
    depth = torch.linspace(0, 1, 26, dtype=torch.float64)
    temperature = (20 * depth).expand(1, 6, 6, 26)
    tendency = scientific.isoneutral_tendency(temperature, torch.zeros_like(temperature))
    torch.testing.assert_close(tendency, torch.zeros_like(tendency))


def test_mixing_only_moves_heat():
    temperature, salinity = (value.double() for value in built("scientific/pyhpc_isoneutral_mixing").inputs)
    tendency = scientific.isoneutral_tendency(temperature, salinity)
    assert tendency.abs().mean() > 1e-3
    assert tendency.mean().item() == pytest.approx(0, abs=1e-12)


def test_turbulence_without_sources_decays():
    energy = torch.ones(1, 2, 26)
    advanced = scientific.advance_turbulent_energy(energy, torch.ones_like(energy), torch.ones_like(energy))
    assert (advanced < energy).all()
    assert (advanced > 0).all()


def test_two_bodies_attract_each_other_by_the_inverse_square():
    positions = torch.tensor([[[0.0, 0, 0], [10, 0, 0]]], dtype=torch.float64)
    masses = torch.tensor([[1.0, 3.0]], dtype=torch.float64)
    expected = torch.tensor([[[3.0, 0, 0], [-1, 0, 0]]], dtype=torch.float64) * 10 / (100.01**1.5)
    torch.testing.assert_close(scientific.accelerations(positions, masses), expected)


def test_the_graph_network_agrees_with_a_dense_adjacency():
    task = built("scientific/basic_gnn_gcn")
    nodes, edges = task.inputs
    layer = task.model.layers[0]
    adjacency = torch.eye(len(nodes)).index_put((edges[1], edges[0]), torch.tensor(1.0), accumulate=True)
    root = torch.diag(adjacency.sum(1).rsqrt())
    expected = root @ adjacency @ root @ layer.linear(nodes)
    torch.testing.assert_close(layer(nodes, edges), expected, rtol=1e-4, atol=1e-5)


def test_self_attention_agrees_with_torch():
    torch.manual_seed(0)
    ours, theirs = SelfAttention(16, 4), torch.nn.MultiheadAttention(16, 4, batch_first=True)
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.project_in.weight, ours.project_in.bias
    theirs.out_proj.weight.data, theirs.out_proj.bias.data = ours.project_out.weight, ours.project_out.bias
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])


def test_causal_attention_does_not_see_the_future():
    torch.manual_seed(0)
    attention, x = SelfAttention(16, 4, causal=True), torch.randn(1, 6, 16)
    changed = torch.cat((x[:, :4], torch.randn(1, 2, 16)), dim=1)
    torch.testing.assert_close(attention(x)[:, :4], attention(changed)[:, :4])
    assert not torch.allclose(attention(x)[:, 4:], attention(changed)[:, 4:])


@pytest.mark.parametrize(("capacity", "taken"), [(8.0, 16), (0.5, 2)])
def test_experts_take_tokens_up_to_their_capacity(capacity, taken):
    torch.manual_seed(0)
    layer = _SwitchLayer(width=4, hidden=8, experts=8, capacity=capacity)
    same = torch.randn(1, 1, 4).expand(1, 16, 4)  # all tokens want one expert
    assert layer(same).abs().sum(-1).gt(0).sum() == taken


def test_an_expert_gets_the_tokens_routed_to_it():
    torch.manual_seed(0)
    layer, x = _SwitchLayer(width=4, hidden=8, experts=3, capacity=3.0), torch.randn(1, 10, 4)
    gates, experts = layer.router(x[0]).softmax(-1).max(-1)
    expected = torch.stack(
        [
            gate * (functional.relu(token @ layer.expand[expert]) @ layer.contract[expert])
            for token, gate, expert in zip(x[0], gates, experts, strict=True)
        ]
    )
    torch.testing.assert_close(layer(x)[0], expected)


@pytest.mark.parametrize("clip", [0.1, 100.0], ids=["all clipped", "none clipped"])
def test_private_gradients_agree_with_a_loop_over_samples(clip):
    task = built("vision/functorch_dp_cifar10", 3)
    task.model.clip = clip
    images, labels = task.inputs
    parameters = list(task.model.net.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for image, label in zip(images, labels, strict=True):
        loss = functional.cross_entropy(task.model.net(image[None]), label[None])
        gradients = torch.autograd.grad(loss, parameters)
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        scale = min(1.0, clip / norm.item()) / len(images)
        total = [sum_ + scale * gradient for sum_, gradient in zip(total, gradients, strict=True)]
    torch.testing.assert_close(list(task.model(images, labels)), total, rtol=1e-4, atol=1e-6)


def test_meta_learning_agrees_with_a_loop_over_tasks():
    task = built("vision/functorch_maml_omniglot", 2)
    net, model = task.model.net, task.model
    names = [name for name, _ in net.named_parameters()]

    def loss(parameters, images, labels):
        return vision._classification_loss(net, dict(zip(names, parameters, strict=True)), images, labels)

    expected = []
    for support, labels, query, query_labels in zip(*task.inputs, strict=True):
        parameters = list(net.parameters())
        gradients = torch.autograd.grad(loss(parameters, support, labels), parameters)
        parameters = [p - model.rate * g for p, g in zip(parameters, gradients, strict=True)]
        expected.append(loss(parameters, query, query_labels))
    torch.testing.assert_close(model(*task.inputs), torch.stack(expected), rtol=1e-3, atol=1e-3)


def test_the_actors_loss_does_not_move_the_critics():
    task = built("reinforcement/soft_actor_critic", 4)
    observation, noise = task.inputs[0], task.inputs[4]
    task.model._actor_loss(observation, noise).sum().backward()
    assert all(parameter.grad is None for parameter in task.model.critics.parameters())
    assert all(parameter.grad is not None for parameter in task.model.actor.parameters())


def test_the_policys_log_probability_is_that_of_a_squashed_gaussian():
    task = built("reinforcement/soft_actor_critic", 4)
    observation, noise = task.inputs[0], task.inputs[4]
    action, log_probability = task.model.actor(observation, noise)
    mean, log_deviation = task.model.actor.body(observation).chunk(2, dim=-1)
    gaussian = torch.distributions.Normal(mean, log_deviation.exp())
    squashed = torch.distributions.TransformedDistribution(gaussian, torch.distributions.TanhTransform())
    expected = squashed.log_prob(action).sum(-1, keepdim=True)
    torch.testing.assert_close(log_probability, expected, rtol=1e-3, atol=1e-3)


def test_foreach_steps_are_those_of_the_optimizers():
    for name, make, zero_state in (
        ("operators/foreach_sgd_64x4096", lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9), 1),
        ("operators/foreach_adamw_64x4096", lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-6), 2),
    ):
        task = built(name)
        values, gradients, *state = task.inputs
        zeros = [[torch.zeros_like(part) for part in parts] for parts in state[:zero_state]]
        parameters = [torch.nn.Parameter(value.clone()) for value in values]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        make(parameters).step()
        torch.testing.assert_close(task.model(values, gradients, *zeros)[0], [p.data for p in parameters])
