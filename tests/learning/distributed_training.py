"""What each process of the two-process test runs: one training, its weights written by rank 0."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.ranks import joined_ranks
from triprune.learning.recipe import Recipe
from triprune.learning.training import train


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(96) % 3
    pixels = torch.randint(0, 180, (96, 3, 8, 8), generator=generator)
    pixels[torch.arange(96), labels] += 75
    images = ImageSet(pixels.to(torch.uint8), labels, ("r", "g", "b"), (0.4,) * 3, (0.2,) * 3)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.GroupNorm(2, 8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 3),
    )
    recipe = Recipe(epochs=3, batch_size=16, rate=0.05, augment=False, precision="fp32")
    with joined_ranks() as ranks:
        job = Job(model, images, recipe, validation=images, device="cpu", checkpoint=folder / "c")
        result = train(job)
        print(f"rank {ranks.rank} of {ranks.world}: {result.accuracy}", flush=True)
        save_file(model.state_dict(), folder / f"rank{ranks.rank}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
