"""Write the data set that ships in the package: an even-handed part of Fashion-MNIST.

The first 1,000 training and 200 test images of every class, in their original order, from the
official IDX files (Debian's package dataset-fashion-mnist, or the project's own download):

    python tools/make_fashion_mnist_small.py /usr/share/datasets/fashion-mnist
"""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import numpy as np

from triprune.files import write_atomically

TARGET = Path(__file__).parent.parent / "src/triprune/learning/datasets/fashion_mnist_small.npz"
PER_CLASS = {"train": 1000, "t10k": 200}


def read_idx(file: Path, header: int) -> np.ndarray:
    return np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8, offset=header)


def part(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    images = read_idx(folder / f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.gz", 8)
    firsts = [np.flatnonzero(labels == number)[: PER_CLASS[name]] for number in range(10)]
    chosen = np.sort(np.concatenate(firsts))
    return images[chosen], labels[chosen]


def main(folder: Path) -> None:
    train_images, train_labels = part(folder, "train")
    test_images, test_labels = part(folder, "t10k")
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
    )
    write_atomically(TARGET, buffer.getvalue())
    print(f"wrote {TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
