"""One chain of the small case, trained by two processes together: what torchrun and Ray run."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

import torch

from triprune.learning.ranks import joined_ranks
from triprune.learning.turns import drive
from triprune.run.artifacts import Survey
from triprune.run.case import Case
from triprune.run.compress import checked_subject
from triprune.run.pieces import Pieces
from triprune.run.store import Store
from triprune.run.trainer import ImageTrainer


def small_case():
    file = Path(__file__).parents[1] / "small_case.py"
    spec = importlib.util.spec_from_file_location("small_case", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pieces(folder: str, watchers=()) -> Pieces:
    small = small_case()
    settings = small.settings(rounds=1, executor="ray", gpus_per_chain=2)
    trainer = ImageTrainer(small.splits(100), settings.spent_recipe, "cpu", watchers)
    return Pieces(
        Case(checked_subject(small.make(), trainer, settings), trainer, settings), Store(folder)
    )


def chain(known: Survey):
    return partial(Pieces.chain, axis="width", known=known)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    line = pieces(sys.argv[1])
    with joined_ranks():
        drive([chain(line.store.read("survey", Survey))(line)])
