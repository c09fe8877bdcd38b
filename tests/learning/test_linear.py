import pytest
import torch
from torch.nn import functional

from triprune.learning.linear import fit_linear, linear_accuracy


def make(seed: int, count: int = 600, width: int = 5, classes: int = 4):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, width, generator=generator)
    features = centres[labels] + torch.randn(count, width, generator=generator)
    # Correlated, shifted and of unequal spread, as pooled features are.
    mix = torch.randn(width, width, generator=generator) * torch.logspace(-1, 1, width)
    return features @ mix + 3.0, labels


def loss_of(features, labels, weights):
    logits = torch.bmm(functional.pad(features, (0, 1), value=1.0), weights)
    return torch.stack([functional.cross_entropy(part, labels) for part in logits])


def test_reaches_the_loss_that_lbfgs_finds():
    features, labels = make(0)
    weights = fit_linear(features[None], labels, 4)
    standard = (features - features.mean(0)) / features.std(0)
    free = torch.zeros(6, 4, requires_grad=True)
    solver = torch.optim.LBFGS([free], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        solver.zero_grad()
        loss = functional.cross_entropy(functional.pad(standard, (0, 1), value=1.0) @ free, labels)
        loss.backward()
        return loss

    solver.step(closure)
    assert loss_of(features[None], labels, weights).item() == pytest.approx(
        closure().item(), abs=2e-3
    )


def test_together_equals_one_by_one():
    (first, labels), (second, _) = make(1), make(2)
    both = fit_linear(torch.stack([first, second]), labels, 4)
    for number, features in enumerate((first, second)):
        alone = fit_linear(features[None], labels, 4)
        torch.testing.assert_close(both[number : number + 1], alone, rtol=1e-3, atol=1e-3)


def test_dead_and_repeated_channels_do_no_harm():
    features, labels = make(3)
    plain = linear_accuracy(features[None], labels, fit_linear(features[None], labels, 4))
    padded = torch.cat([features, torch.zeros(600, 2), features[:, :1]], 1)[None]
    weights = fit_linear(padded, labels, 4)
    assert torch.isfinite(weights).all()
    assert linear_accuracy(padded, labels, weights).item() == pytest.approx(plain.item(), abs=0.01)


def test_accuracy_counts_right_answers():
    features = torch.tensor([[[1.0], [-1.0], [1.0], [-1.0]]])
    weights = torch.tensor([[[1.0, -1.0], [0.0, 0.0]]])
    assert linear_accuracy(features, torch.tensor([0, 1, 1, 1]), weights).item() == 0.75
