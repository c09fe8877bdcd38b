"""Owns training the original from scratch, on the very images that a run will train on later.

A run that prunes a model must judge it by images the model has not learned. The same spec gives
the same division of the images, and the weights say in their header which ones they have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triprune.errors import InputError
from triprune.learning.deadline import Deadline, time_is_up
from triprune.learning.images import Splits
from triprune.learning.job import Job, TrainResult
from triprune.learning.progress import Watcher
from triprune.learning.side_by_side import train_side_by_side
from triprune.learning.training import Training
from triprune.learning.turns import Work
from triprune.learning.weights import save_weights, weights_card
from triprune.run.differing import difference
from triprune.run.image_facts import differing, trained_on
from triprune.run.opening import open_parts
from triprune.run.spec import RunSpec


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """One training from scratch, and where its weights go."""

    spec: RunSpec
    weights: Path
    splits: Splits
    job: Job

    @classmethod
    def of(cls, spec: RunSpec) -> Baseline:
        """Open the model and the data of ``spec``; its ``weights`` are what is to be made."""
        if spec.weights is None or not spec.weights.endswith(".safetensors"):
            raise InputError(
                f"training {spec.model}", "no .safetensors file is named to write to", "name one"
            )
        weights = Path(spec.weights)
        weights.parent.mkdir(parents=True, exist_ok=True)
        model, splits = open_parts(spec)
        job = Job(
            model,
            splits.train,
            spec.settings.recipe.from_scratch(),
            name=weights.stem,
            validation=splits.validation,
            seed=spec.settings.seed,
            checkpoint=weights.with_suffix(".under-way"),
            device=spec.settings.device,
        )
        return cls(spec, weights, splits, job)

    def facts(self) -> dict[str, Any]:
        """Return what the weights depend on."""
        return {
            "model": self.spec.model,
            **trained_on(self.splits.train),
            "recipe": self.job.recipe.to_mapping(),
            "seed": self.job.seed,
        }

    def done(self) -> bool:
        """Whether the weights are there already; refuse to write over any others."""
        if not self.weights.exists():
            return False
        told, now = weights_card(self.weights), self.facts()
        if told is None:
            found = "it holds weights that do not say how they were trained"
        elif others := differing(told, now):
            found = f"it holds others: {'; '.join(difference(told, now, name) for name in others)}"
        else:
            return True
        raise InputError(
            f"training weights into {self.weights}",
            found,
            "name another file, or give what these were trained with; nothing was changed",
        )

    def train(
        self, watchers: Sequence[Watcher] = (), deadline: Deadline | None = None
    ) -> Work[TrainResult]:
        """Train and write the weights, giving way often; begun again, go on."""
        result = yield from Training(self.job, watchers, deadline).run()
        if not result.finished:
            raise time_is_up(f"training {self.job.name}")
        self.keep(result)
        return result

    def keep(self, result: TrainResult) -> None:
        """Write the weights, with all that is known of them, and drop the checkpoint."""
        told = self.facts() | {
            "images": len(self.splits.train),
            "validation_accuracy": result.accuracy,
            "validation_images": len(self.splits.validation),
            "seconds": round(sum(epoch.seconds for epoch in result.history), 1),
            "engine": result.engine,
        }
        save_weights(result.model, self.weights, told)
        assert self.job.checkpoint is not None
        self.job.checkpoint.unlink(missing_ok=True)


def train_baselines(
    specs: Sequence[RunSpec], watchers: Sequence[Watcher] = (), deadline: Deadline | None = None
) -> dict[Path, TrainResult]:
    """Train the originals of ``specs`` side by side and write their weights; run again, go on."""
    opened = [Baseline.of(spec) for spec in specs]
    baselines = [baseline for baseline in opened if not baseline.done()]
    jobs = [baseline.job for baseline in baselines]
    outcomes = train_side_by_side(jobs, watchers=watchers, stop=deadline)
    results: dict[Path, TrainResult] = {}
    for baseline, outcome in zip(baselines, outcomes, strict=True):
        if isinstance(outcome, TrainResult) and outcome.finished:
            baseline.keep(outcome)
            results[baseline.weights] = outcome
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    if len(results) < len(jobs):
        raise time_is_up(f"training {', '.join(job.name for job in jobs)}")
    return results
