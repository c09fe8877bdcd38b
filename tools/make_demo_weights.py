"""Train the ResNet-14 that ``make demo`` shrinks, and write down how; minutes on two cores.

    python tools/make_demo_weights.py

It sees the training images of the split that the demo itself uses (the same seed), never the
demo's validation or test images.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import torch
from safetensors.torch import save

import triprune
from triprune.files import write_atomically
from triprune.learning.progress import terminal_watcher
from triprune.run.trainer import ImageTrainer

TARGET = Path(__file__).parent.parent / "examples" / "resnet14_fashion_mnist.safetensors"
MODEL, SEED = "resnet14", 0
RECIPE = triprune.Recipe(epochs=15, schedule="cosine", warmup_epochs=1, weight_decay=5e-4)


def main() -> None:
    splits = triprune.load_data(seed=SEED)
    torch.manual_seed(SEED)
    model = triprune.build_model(MODEL)
    job = triprune.Job(
        model,
        splits.train,
        RECIPE,
        name=MODEL,
        validation=splits.validation,
        seed=SEED,
    )
    result = triprune.train(job, watchers=[terminal_watcher()])
    tensors = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(TARGET, save(tensors))
    told = {
        "command": "python tools/make_demo_weights.py",
        "model": MODEL,
        "images": {"fingerprint": ImageTrainer(splits, RECIPE).facts()["data"], "seed": SEED},
        "seed": SEED,
        "recipe": RECIPE.to_mapping(),
        "validation_accuracy": result.accuracy,
        "versions": {
            "triprune": triprune.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    write_atomically(TARGET.with_suffix(".json"), json.dumps(told, indent=2) + "\n")
    print(f"wrote {TARGET}: {TARGET.stat().st_size:,} bytes, accuracy {result.accuracy:.2%}")


if __name__ == "__main__":
    main()
