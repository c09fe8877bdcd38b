"""Owns what the paper reports of CIFAR-10, and what follows from a recorded run; draws nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Any

from triprune.core.measured import gap_doubt, gap_error
from triprune.core.predictor import Predictor
from triprune.core.scale import Scale

PAPER_SEARCH_EPOCHS = 480  # three chains of four rounds of 40 epochs
SPENDS = ("joint", "depth", "width", "resolution")


@dataclass(frozen=True, slots=True)
class Published:
    """A line of Wang et al. 2021, Table 1, in percent; ``scale`` where the text gives it.

    ``macs`` are the kept ones of single axes that were cut less than the joint model.
    """

    original: float
    joint: float
    depth: float
    width: float
    resolution: float
    scale: tuple[float, float, float] | None = None
    macs: Mapping[str, float] = field(default_factory=dict[str, float])

    def cell(self, name: str) -> str:
        """Return an accuracy as it stands in a table."""
        at = f" at {self.macs[name]:.0%}" if name in self.macs else ""
        return f"{getattr(self, name):.2f}{at}"


PAPER = {
    ("resnet32", 0.5): Published(93.18, 93.27, 92.65, 92.16, 90.19, (0.78, 0.82, 0.98)),
    ("resnet56", 0.5): Published(93.69, 93.76, 93.27, 92.97, 92.00),
    ("densenet40", 0.34): Published(
        94.59, 94.54, 94.02, 94.26, 92.88, macs={"depth": 0.54, "resolution": 0.47}
    ),
}
ALLOWED_DROP = {"resnet32": 0.2, "resnet56": 0.2, "densenet40": 0.3}  # points


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predictor's word on a final model, and the validation accuracies that followed."""

    spends: str
    predicted: float
    interval: tuple[float, float]
    measured: tuple[float, ...]

    @property
    def gain(self) -> float:
        """By how much the mean over the seeds lies above the forecast."""
        return fmean(self.measured) - self.predicted

    @property
    def error(self) -> float:
        """The distance of the forecast from the mean over the seeds."""
        return abs(self.gain)

    @property
    def covered(self) -> int:
        """How many of the measurements lie in the interval."""
        low, high = self.interval
        return sum(low <= each <= high for each in self.measured)


def published(run: dict[str, Any], budget: float) -> Published | None:
    """Return the paper's line for the same network and budget."""
    return PAPER.get((run["model"], round(budget, 4)))


def measured_budgets(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the budgets of a run whose models have met the test images, the largest first."""
    return sorted((at for at in run["budgets"] if at["test"]), key=lambda at: -at["budget"])


def forecasts(at: dict[str, Any]) -> list[Forecast]:
    """Return the forecasts at a budget that have been put to the test."""
    found: list[Forecast] = []
    for spends in SPENDS:
        choice = at["choices"].get(spends, {}).get("choice")
        scores = tuple(each["accuracy"] for each in at["finals"].get(spends, ()))
        if choice is not None and scores:
            low, high = choice["interval"]
            found.append(Forecast(spends, choice["predicted_accuracy"], (low, high), scores))
    return found


def kept_loss(found: Sequence[Forecast], original: float) -> tuple[float, float]:
    """Return the part of the forecast losses that was found, by least squares, and what it leaves.

    The second number is the mean absolute error of the forecasts with that factor on every loss.
    """
    pairs = [(original - each.predicted, original - fmean(each.measured)) for each in found]
    squares = sum(told**2 for told, _ in pairs)
    factor = sum(told * lost for told, lost in pairs) / squares if squares else 0.0
    return factor, fmean(abs(lost - factor * told) for told, lost in pairs)


def row_of(at: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the line called ``name`` of the test, if there is one."""
    if at["test"] is None:
        return None
    return next((row for row in at["test"]["rows"] if row["name"] == name), None)


def drop(at: dict[str, Any], name: str = "joint") -> float | None:
    """Return how many points of test accuracy a model loses against the original."""
    original, row = row_of(at, "original"), row_of(at, name)
    if original is None or row is None:
        return None
    return 100 * (fmean(original["accuracies"]) - fmean(row["accuracies"]))


@dataclass(frozen=True, slots=True)
class Lead:
    """By how many points the joint model leads the best ``control``, and how sure that is.

    One seed tells neither the error nor the ``doubt``, which is what the scatter of seeds explains.
    """

    control: str
    points: float
    standard_error: float | None = None
    doubt: float | None = None

    @property
    def clear(self) -> bool:
        """Whether other seeds, of the same original and images, would hardly turn it round."""
        return self.doubt is not None and abs(self.points) > self.doubt


def lead(at: dict[str, Any]) -> Lead | None:
    """Compare the joint model with the best control, by their means over the seeds."""
    joint = row_of(at, "joint")
    controls = [row for name in SPENDS[1:] if (row := row_of(at, name)) is not None]
    if joint is None or not controls:
        return None
    best = max(controls, key=lambda row: fmean(row["accuracies"]))
    pair = joint["accuracies"], best["accuracies"]
    points = 100 * (fmean(pair[0]) - fmean(pair[1]))
    if min(map(len, pair)) < 2:
        return Lead(best["name"], points)
    doubt = gap_doubt(*pair, best_of=len(controls))
    return Lead(best["name"], points, 100 * gap_error(*pair), 100 * doubt)


def original_of(run: dict[str, Any]) -> tuple[str, float]:
    """Return what tells one trained original from another."""
    return run["model"], run["original"]["accuracy"]


def is_own(run: dict[str, Any], at: dict[str, Any]) -> bool:
    """Whether this is the budget that the run is configured for."""
    return at["budget"] == run["settings"]["budget"]


def joint_choice(run: dict[str, Any]) -> list[float] | None:
    """Return the scale chosen for the run's own budget."""
    for at in run["budgets"]:
        if is_own(run, at) and "joint" in at["choices"]:
            return at["choices"]["joint"]["choice"]["scale"]
    return None


def regret(run: dict[str, Any], judge: dict[str, Any]) -> float | None:
    """Return the points that a run's choice loses against the judge's, by the judge's predictor."""
    ours, theirs = joint_choice(run), joint_choice(judge)
    if ours is None or theirs is None or judge["predictor"] is None:
        return None
    predictor = Predictor.from_dict(judge["predictor"])
    return 100 * (predictor(Scale(*theirs)) - predictor(Scale(*ours)))


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What a run was given by runs before it: its chains and its final models, and whose.

    ``choice`` names a run of the same original that chose the same joint model.
    """

    chains: dict[str, str]
    finals: dict[str, str]
    choice: str | None = None


def borrowed(runs: Sequence[dict[str, Any]]) -> dict[str, Borrowed]:
    """Return for every run what is the same, to the last digit, in a run before it."""
    found: dict[str, Borrowed] = {}
    for place, run in enumerate(runs):
        one = Borrowed({}, {})
        for other in runs[:place]:
            theirs = chains_of(other)
            for axis, rounds in chains_of(run).items():
                if rounds == theirs.get(axis):
                    one.chains.setdefault(axis, other["name"])
            for spends, finals in finals_of(run).items():
                if finals and finals == finals_of(other).get(spends):
                    one.finals.setdefault(spends, other["name"])
        found[run["name"]] = replace(one, choice=same_choice(run, runs[:place]))
    return found


def same_choice(run: dict[str, Any], before: Sequence[dict[str, Any]]) -> str | None:
    """Return the name of the first run of this original that chose the same joint model."""
    chosen = joint_choice(run)
    same = (
        other["name"]
        for other in before
        if other["model"] == run["model"] and other["original"] == run["original"]
        if chosen is not None and joint_choice(other) == chosen
    )
    return next(same, None)


def chains_of(run: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the rounds of every chain that has any, by axis."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in run["observations"]:
        found.setdefault(each["axis"], []).append(each)
    return found


def finals_of(run: dict[str, Any]) -> dict[str, Any]:
    """Return the final models at the run's own budget, by what it was spent on."""
    own = [at for at in run["budgets"] if is_own(run, at)]
    return own[0]["finals"] if own else {}


def search_epochs(run: dict[str, Any], given: Collection[str] = ()) -> int:
    """Return the epochs spent so far on the chains, but for those along axes that were given."""
    return sum(each["epochs"] for each in run["observations"] if each["axis"] not in given)


def seconds_of(run: dict[str, Any], stage: str) -> float:
    """Return the wall-clock seconds that all calls spent on a stage."""
    return sum(call["seconds"].get(stage, 0.0) for call in run["calls"])


def mean_and_spread(scores: Sequence[float]) -> str:
    """Return percent with two digits; ± the standard deviation where there are several."""
    spread = f" ± {100 * stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{100 * fmean(scores):.2f}{spread}"


def scale(kept: Sequence[float]) -> str:
    """Return the kept depth, width and resolution as they stand in tables."""
    return " / ".join(f"{each:.2f}" for each in kept)
