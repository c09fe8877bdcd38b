"""What the kill test runs: a training that saves every epoch, then writes its weights."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.models import build_model
from triprune.learning.progress import PlainLines
from triprune.learning.recipe import Recipe
from triprune.learning.training import train


def main(checkpoint: Path, weights: Path) -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (64, 3, 8, 8), generator=generator, dtype=torch.uint8)
    labels = torch.arange(64) % 10
    images = ImageSet(pixels, labels, tuple("abcdefghij"), (0.5,) * 3, (0.3,) * 3)
    torch.manual_seed(0)
    recipe = Recipe(epochs=12, batch_size=16, rate=0.02)
    job = Job(build_model("resnet20"), images, recipe, checkpoint=checkpoint, device="cpu")
    save_file(train(job, watchers=[PlainLines()]).model.state_dict(), weights)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
