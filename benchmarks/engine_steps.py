r"""Hold the engine against the textbook: the same weights, batches and crops, one plain loop.

    python benchmarks/engine_steps.py --data cifar10/ --model resnet56 --side-by-side 3

Prints every epoch's mean loss of both, and fails where they part by more than ``--tolerance``.
Epochs are a few steps long, so that new orders, new randomness and the fall of the rate are all
seen; the rate is small, because at a large one rounding errors grow to anything.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from cifar10_files import read_train
from engine_accuracy import Case
from triprune.learning.feed import seed_for
from triprune.learning.images import ImageSet
from triprune.learning.job import Job, TrainResult
from triprune.learning.precision import switches
from triprune.learning.recipe import Recipe
from triprune.learning.side_by_side import train_side_by_side
from variants import recipe_of

MILESTONE = 0.5  # of the epochs


def main() -> None:
    settings = parse()
    images = read_train(settings.data)
    images = images.take(torch.arange(settings.images)).to(settings.device)
    recipe = recipe_of(
        settings.variant,
        Recipe(
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            rate=settings.rate,
            milestones=(MILESTONE,),
        ),
    )
    cases = [Case(settings.model, settings.variant, seed) for seed in range(settings.side_by_side)]
    jobs = [
        Job(case.build(), images, recipe, name=case.name, seed=case.seed, device=settings.device)
        for case in cases
    ]
    outcomes = train_side_by_side(jobs)
    worst = 0.0
    for case, outcome in zip(cases, outcomes, strict=True):
        if not isinstance(outcome, TrainResult):
            raise outcome
        model = case.build().to(settings.device)
        with switches("fp32", images.images.device):
            plain = textbook_losses(model, images, recipe, seed=case.seed)
        ours = [record.loss for record in outcome.history]
        print(f"{case.name} ({outcome.engine})")
        for epoch, (mine, theirs) in enumerate(zip(ours, plain, strict=True), start=1):
            worst = max(worst, abs(mine - theirs) / theirs)
            print(f"  epoch {epoch}: engine {mine:.6f}, textbook {theirs:.6f}")
    print(f"largest relative difference: {worst:.2e}")
    if not worst <= settings.tolerance:
        raise SystemExit(f"more than {settings.tolerance:g}: the engine is not the textbook's loop")


def textbook_losses(
    model: nn.Module, images: ImageSet, recipe: Recipe, *, seed: int
) -> list[float]:
    """Train as a textbook does, with nothing of the engine but its seeds; return mean losses."""
    device = images.images.device
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=recipe.rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
    fall = round(MILESTONE * recipe.epochs)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [fall], gamma=0.1)
    criterion = nn.CrossEntropyLoss()
    model.train()
    means: list[float] = []
    for epoch in range(recipe.epochs):
        order = torch.Generator().manual_seed(seed_for(seed, epoch, "order"))
        crops = torch.Generator(device).manual_seed(seed_for(seed, epoch, "augment/0"))
        losses: list[float] = []
        for rows in torch.randperm(len(images), generator=order).split(recipe.batch_size):
            if len(rows) < recipe.batch_size:
                break
            where = rows.to(device)
            draw = torch.rand(3, len(rows), 1, generator=crops, device=device).squeeze(2).T.tolist()
            inputs = [
                textbook_image(images, index, *d) for index, d in zip(where, draw, strict=True)
            ]
            loss = criterion(model(torch.stack(inputs)), images.labels[where])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        schedule.step()
        means.append(sum(losses) / len(losses))
    return means


def textbook_image(images: ImageSet, index: Tensor, top: float, left: float, flip: float) -> Tensor:
    """Return one image: black border, crop, flip, normalisation; each draw is in [0, 1)."""
    size = images.images.shape[-1]
    pad = size // 8
    mean = torch.tensor(images.mean, device=index.device).view(-1, 1, 1)
    std = torch.tensor(images.std, device=index.device).view(-1, 1, 1)
    padded = functional.pad(images.images[index], (pad, pad, pad, pad))
    y, x = int(top * (2 * pad + 1)), int(left * (2 * pad + 1))
    crop = padded[:, y : y + size, x : x + size]
    if flip >= 0.5:
        crop = crop.flip(2)
    return (crop.float() / 255 - mean) / std


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of data_batch_*.bin")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", default="resnet56")
    parser.add_argument("--variant", default="fp32")
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rate", type=float, default=0.002)
    parser.add_argument("--side-by-side", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=0.01)
    return parser.parse_args()


if __name__ == "__main__":
    main()
