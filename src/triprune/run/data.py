"""Owns how a run reads its data: as its model wants images, divided by the run's seed.

The command line and Python read by it, so that both judge a model by the same images.
"""

from __future__ import annotations

from torch import nn

from triprune.learning.data import DataSource, load_data
from triprune.learning.images import Splits
from triprune.learning.loading import Reading
from triprune.learning.normalisation import Normalisation, card_normalisation


def data_for(
    model: nn.Module,
    source: DataSource,
    *,
    seed: int,
    validation: float | str = 0.1,
    resolution_px: int | None = None,
    normalisation: Normalisation | None = None,
) -> Splits:
    """Return the data as ``model`` reads it; the same seed sets the same images aside.

    Images are grey where the first convolution takes one channel. Without a ``normalisation`` they
    get the one on the card of a torchvision or timm model (``card_normalisation``). What any other
    model was trained with cannot be told from it: then it is the training pixels' own.
    """
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    channels = 1 if first is not None and first.in_channels == 1 else 3
    card = card_normalisation(model) if channels == 3 else None
    reading = Reading(resolution_px, channels=channels, normalisation=normalisation or card)
    return load_data(source, reading, validation=validation, seed=seed)
