"""Measure what reading one image costs a core: JPEGs of ImageNet's size, by the project's reader.

    python benchmarks/decode_speed.py --out results/scaling/decode.json

Counts the seconds of the processor, not of the clock: a busy machine does not change them much.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from PIL import Image

from machine import circumstances, write_json
from triprune.learning.datasets.folders import image_folder
from triprune.learning.images import resize

WIDTH, HEIGHT, QUALITY = 500, 375, 90


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/scaling/decode.json"))
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        size = write_images(Path(folder), settings.images)
        source = image_folder(Path(folder)).train
        rows = []
        for side in (224, 160):
            speeds = []
            for _ in range(settings.rounds):
                began = time.process_time()
                for index in range(settings.images):
                    source.read(index, (side, side), 3)
                speeds.append(settings.images / (time.process_time() - began))
            rows.append(
                {"resolution_px": side, "images_per_core_second": statistics.median(speeds)}
            )
            print(f"{side} px: {statistics.median(speeds):.0f} images a second and core")
    content = {
        "kind": "decode speed",
        "settings": {"size": [WIDTH, HEIGHT], "quality": QUALITY, "mean_bytes": round(size)},
        "circumstances": circumstances(torch.device("cpu")),
        "rows": [
            {**row, "images_per_core_second": round(row["images_per_core_second"], 1)}
            for row in rows
        ],
    }
    write_json(settings.out, content)


def write_images(folder: Path, count: int) -> float:
    """Write photograph-like images, smooth with some grain; return their mean size in bytes."""
    generator = torch.Generator().manual_seed(0)
    sizes = []
    for part, number in (("train", count), ("val", 2)):
        for index in range(number):
            home = folder / part / f"class{index % 2}"
            home.mkdir(parents=True, exist_ok=True)
            coarse = torch.randint(0, 256, (1, 3, 24, 24), generator=generator, dtype=torch.uint8)
            smooth = resize(coarse, WIDTH)[0, :, :HEIGHT].float()
            grain = 12 * torch.randn(smooth.shape, generator=generator)
            pixels = (smooth + grain).clamp(0, 255).byte().permute(1, 2, 0).numpy()
            file = home / f"{index}.jpg"
            Image.fromarray(pixels).save(file, quality=QUALITY)
            sizes.append(file.stat().st_size)
    return statistics.fmean(sizes)


if __name__ == "__main__":
    main()
