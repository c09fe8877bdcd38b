# tomli, which stands in before Python 3.11, may be unknown to the type checker:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Owns what a run is asked for: a frozen spec, from TOML or flags; refuses what cannot be meant."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from triprune.core.budget import run_budget
from triprune.core.scale import AXES
from triprune.errors import FileFormatError, InputError
from triprune.learning.datasets.embedded import NAME as EMBEDDED
from triprune.learning.normalisation import IMAGENET, Normalisation
from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Recipe, refuse_unknown
from triprune.network.channels.importance import Importance

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

Effort = Literal["paper", "standard", "quick"]
CostName = Literal["macs", "params", "latency", "paper"]
BlockImportance = Literal["probe", "output", "probe_per_cost"]
ExecutorName = Literal["inline", "side-by-side", "ray"]

# Taylor's score needs the gradients of a loss that a run does not compute.
_WITHOUT_GRADIENTS = tuple(name for name in get_args(Importance) if name != "taylor")

# The part of the recipe's epochs that is spent on each round, and on the final fine-tuning. Those
# of rounds were measured (docs/adr/0093).
_EFFORT: dict[str, tuple[float, float]] = {
    "paper": (1.0, 1.0),
    "standard": (0.5, 0.5),
    "quick": (0.25, 0.125),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run decides and trains, whatever the model and the data.

    ``budget`` is the part of the original compute that may remain. ``recipe`` says how the
    original was trained; ``effort`` how much of the recipe's fine-tuning is spent. ``controls``
    also spends the budget on each axis alone; ``seeds`` repeats the final fine-tunings.
    ``cost`` is what the budget is a part of; ``importance`` says which channels go first,
    ``round_to`` keeps them in multiples; ``block_importance`` says which blocks go first: those
    that add least to what linear probes can read, in all or for the macs (params, where the budget
    is of params) that go with them, or those without which the output changes least.
    ``chains_to`` lets the chains go on to where less than the budget remains, which tells noise
    from trend (docs/adr/0108); None ends them at the budget.
    ``ray_address`` is where a Ray cluster answers; None takes the one on this machine, or starts
    one. ``gpus_per_chain`` (processes, where there are no GPUs) train each model together.
    """

    budget: float
    rounds: int = 4
    recipe: Recipe = field(default_factory=Recipe)
    effort: Effort = "standard"
    cost: CostName = "macs"
    importance: Importance = "bn_scale"
    block_importance: BlockImportance = "probe"
    controls: bool = False
    seeds: int = 1
    seed: int = 0
    executor: ExecutorName = "side-by-side"
    ray_address: str | None = None
    gpus_per_chain: int = 1
    device: str | None = None
    round_to: int = 1
    chains_to: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", run_budget(self.budget))
        if self.budget >= 1.0:
            raise InputError("budget 100%", "nothing would have to go", "ask for less, as 50%")
        if self.chains_to is not None:
            object.__setattr__(self, "chains_to", run_budget(self.chains_to, "chains to"))
        if self.chains_end > self.budget:
            raise InputError(
                f"chains to {self.chains_end:.4g} for a budget of {self.budget:.4g}",
                "the choice would lie beyond all that is observed",
                "give the budget or less, or leave it out",
            )
        for name, choices in (
            ("effort", get_args(Effort)),
            ("cost", get_args(CostName)),
            ("importance", _WITHOUT_GRADIENTS),
            ("block_importance", get_args(BlockImportance)),
            ("executor", get_args(ExecutorName)),
        ):
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name} {getattr(self, name)!r}",
                    "there is no such choice",
                    f"give one of {', '.join(choices)}",
                )
        for name in ("rounds", "seeds", "gpus_per_chain", "round_to"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} = {value!r}", "it is no count", "give 1 or more")
        self._check_kinds()
        if self.executor == "ray" and self.cost == "latency":
            raise InputError(
                "a budget of latency on Ray",
                "its workers may be other machines than this one",
                "run it with another executor on the device that it is for",
            )
        if self.executor != "ray" and (self.gpus_per_chain > 1 or self.ray_address):
            raise InputError(
                f"the executor {self.executor} with a Ray address or several GPUs per chain",
                "only Ray can follow these",
                "add --executor ray",
            )
        Ranks(world=self.gpus_per_chain).share(self.recipe.batch_size)

    def _check_kinds(self) -> None:
        _require(self.seed, "seed", (int,), "a whole number from 0 up")
        _require(self.controls, "controls", (bool,), "true or false")
        _require(self.device, "device", (str, NoneType), "a name, as cpu or cuda")
        _require(self.recipe, "recipe", (Recipe,), "a preset's name or a table of settings")

    @property
    def spent_recipe(self) -> Recipe:
        """The recipe with the epochs that ``effort`` leaves of it."""
        for_round, for_final = _EFFORT[self.effort]
        return replace(
            self.recipe,
            round_epochs=max(1, round(self.recipe.round_epochs * for_round)),
            final_epochs=max(1, round(self.recipe.final_epochs * for_final)),
        )

    @property
    def chains_end(self) -> float:
        """The part of the cost that remains where the chains end."""
        return self.budget if self.chains_to is None else self.chains_to

    @property
    def planned_epochs(self) -> int:
        """All epochs of fine-tuning that a run takes, chains and finals together."""
        recipe, spent = self.spent_recipe, 1 + (len(AXES) if self.controls else 0)
        chains = len(AXES) * self.rounds * recipe.round_epochs
        return chains + spent * self.seeds * recipe.final_epochs

    def paper_epochs(self, final: bool) -> int:
        """Return the epochs that the recipe itself gives a round, or the final fine-tuning."""
        return self.recipe.fine_tuning(final=final).epochs

    def deciding(self) -> dict[str, Any]:
        """Return what every stored observation depends on, fit for JSON."""
        deciding: dict[str, Any] = {
            "budget": self.budget,
            "rounds": self.rounds,
            "recipe": self.spent_recipe.to_mapping(),
            "cost": self.cost,
            "importance": self.importance,
            "block_importance": self.block_importance,
            "seed": self.seed,
        }
        if self.gpus_per_chain > 1:  # batch norm then sees a part of each batch
            deciding["gpus_per_chain"] = self.gpus_per_chain
        if self.round_to > 1:
            deciding["round_to"] = self.round_to
        if self.chains_to is not None:
            deciding["chains_to"] = self.chains_to
        return deciding

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values for JSON; ``from_mapping`` reads them."""
        return {**asdict(self), "recipe": self.recipe.to_mapping()}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings with ``values``; a recipe may name a ``preset`` to begin from.

        Epochs that a recipe names are meant: they are spent in full unless ``effort`` is named too.
        """
        given = dict(values)
        refuse_unknown(given, {each.name for each in fields(cls)}, "a run")
        if "budget" not in given:
            raise InputError("a run without a budget", "nothing says what may remain", "give one")
        recipe = given.get("recipe")
        if isinstance(recipe, (str, Mapping)):
            changes: dict[str, Any] = {"preset": recipe} if isinstance(recipe, str) else {**recipe}
            begun = Recipe.preset(changes.pop("preset", "cifar10"))
            if {"round_epochs", "final_epochs"} & {*changes}:
                given.setdefault("effort", "paper")
            given["recipe"] = Recipe.from_mapping({**begun.to_mapping(), **changes})
        return cls(**given)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of the command line: which model, which weights, which data, and the settings.

    ``validation`` is as for ``load_data``. ``normalisation`` is the mean and std of each channel
    that the weights were trained with; "imagenet" names a common one.
    """

    model: str
    settings: Settings
    weights: str | None = None
    data: str = EMBEDDED
    resolution_px: int | None = None
    validation: float | str = 0.1
    normalisation: Normalisation | None = None

    def __post_init__(self) -> None:
        _require(self.model, "model", (str,), "a name, as triprune.list_models() gives them")
        _require(self.weights, "weights", (str, NoneType), "the path of a .safetensors file")
        _require(self.data, "data", (str,), "the path of a folder, or a name")
        _require(
            self.resolution_px,
            "resolution_px (--resolution-px)",
            (int, NoneType),
            "a number of pixels",
        )

    def with_recipe(self, recipe: Recipe) -> RunSpec:
        """Return the spec with another recipe."""
        return replace(self, settings=replace(self.settings, recipe=recipe))

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values for JSON; ``from_mapping`` reads them."""
        return {**asdict(self), "settings": self.settings.to_mapping()}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RunSpec:
        """Return the spec with ``values``, as JSON or a TOML file holds them."""
        refuse_unknown(values, {each.name for each in fields(cls)}, "a run")
        if "model" not in values:
            raise InputError("a run without a model", "there is nothing to prune", "name a model")
        told = values.get("settings", {})
        _require(told, "settings", (Mapping,), "a table, [settings]")
        settings = Settings.from_mapping(told)
        normalisation = _normalisation(values.get("normalisation"))
        given: dict[str, Any] = {**values, "settings": settings, "normalisation": normalisation}
        return cls(**given)

    @classmethod
    def from_toml(cls, path: str | Path) -> RunSpec:
        """Read a spec: ``model``, ``weights``, ``data`` and a table ``[settings]``."""
        try:
            return cls.from_mapping(tomllib.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise FileFormatError(
                f"reading the run {path}", error.strerror or str(error), "name a TOML file"
            ) from error
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FileFormatError(
                f"reading the run {path}", f"it is no TOML file ({error})", "mend or rename it"
            ) from error


def _normalisation(told: object) -> Normalisation | None:
    """Read a normalisation: none, ``"imagenet"``, or the lists of means and of stds."""
    if told is None or told == "imagenet":
        return None if told is None else IMAGENET
    try:
        means, stds = (tuple(map(float, each)) for each in told)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"normalisation = {told!r}",
            "it is no mean and std of each channel",
            "give [[0.49, 0.48, 0.45], [0.25, 0.24, 0.26]], for example, or imagenet",
        ) from error
    return means, stds


def _require(value: object, name: str, kinds: tuple[type, ...], wanted: str) -> None:
    """Refuse a value of another kind; a number must not be negative, and a truth is no number."""
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if not fits or (isinstance(value, int) and value < 0):
        raise InputError(f"{name} = {value!r}", "it cannot be meant", f"give {wanted}")


def default_recipe(data: str) -> Recipe:
    """Return the shipped data's own recipe, else the paper's for CIFAR-10."""
    return Recipe.preset("demo" if data == EMBEDDED else "cifar10")
