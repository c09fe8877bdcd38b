"""Owns how a report says things: scores and counts as text, and the sentences of its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from triprune.core.measured import Judged, gap_doubt, times_faster
from triprune.report.amounts import count, milliseconds
from triprune.report.budget_curves import label_of
from triprune.report.contents import Comparison, Report

_SAME_SPEED = 0.03
"""Timings of one model differ by as much from one time to the next."""


@dataclass(frozen=True, slots=True)
class Words:
    """Writes scores as percentages, or as they are where they are no fractions."""

    in_percent: bool

    def score(self, value: float | None) -> str:
        """Return an accuracy, "–" where there is none."""
        if value is None or not math.isfinite(value):
            return "–"
        return f"{100 * value:.2f} %" if self.in_percent else f"{value:.4g}"

    @property
    def unit(self) -> str:
        """What a difference of accuracies is counted in, to follow a name."""
        return ", points" if self.in_percent else ""

    def change(self, value: float) -> str:
        """Return a difference of accuracies with its sign, without its unit."""
        text = f"{100 * abs(value):.2f}" if self.in_percent else f"{abs(value):.3g}"
        sign = "±" if float(text) == 0.0 else "+" if value > 0 else "−"
        return f"{sign}{text}"

    def gap(self, value: float) -> str:
        """Return a difference of accuracies with its sign and unit."""
        return f"{self.change(value)}{' points' if self.in_percent else ''}"

    def size(self, value: float) -> str:
        """Return a difference of accuracies, or a spread, without its sign."""
        return f"{100 * value:.2f} points" if self.in_percent else f"{value:.4g}"

    def measured(self, model: Judged) -> str:
        """Return the mean over the seeds and, for more than one, its spread."""
        if model.spread is None:
            return self.score(model.accuracy)
        if not self.in_percent:
            return f"{model.accuracy:.4g} ± {model.spread:.2g}"
        return f"{100 * model.accuracy:.2f} ± {100 * model.spread:.2f} %"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader wants first: one sentence, three figures, and how the controls did.

    Each figure is a name, the figure, and a line that explains it.
    """

    sentence: str
    figures: tuple[tuple[str, str, str], ...]
    verdict: str


def answer(report: Report) -> Answer | None:
    """Return the answer of a finished run; None before it is finished."""
    found = report.comparison
    original = found and found.model("original")
    joint = found and found.model("joint")
    if found is None or original is None or joint is None:
        return None
    words = Words(report.in_percent)
    speed_up, speed = _speed(report, found, original, joint)
    lost = joint.accuracy - original.accuracy
    figures = (
        (
            "Smaller",
            f"{100 * joint.macs / original.macs:.1f} %",
            f"of the macs remain: {count(joint.macs)} of {count(original.macs)}; "
            f"{count(joint.params)} of {count(original.params)} parameters",
        ),
        ("Faster", f"{speed_up:.2f} ×", speed),
        ("Accuracy", words.measured(joint), _accuracy_line(words, original, joint)),
    )
    less = "as accurate" if abs(lost) < 5e-5 else f"{words.size(abs(lost))} "
    less += "" if abs(lost) < 5e-5 else "more accurate" if lost > 0 else "less accurate"
    sentence = f"{_share(joint.macs / original.macs)} of the compute, {_pace(speed_up)}, {less}."
    return Answer(sentence, figures, verdict(words, found, joint))


def _accuracy_line(words: Words, original: Judged, joint: Judged) -> str:
    seeds = len(joint.accuracies)
    told = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed, so no spread"
    gap = words.gap(joint.accuracy - original.accuracy)
    return f"on the test split, {gap} from the original's {words.score(original.accuracy)}; {told}"


def _speed(report: Report, found: Comparison, original: Judged, joint: Judged) -> tuple[float, str]:
    """Return the measured speed-up, from a bench at batch 1 where there is one."""
    for test in report.speed:
        rows = [r for r in test.rows if r.name == "joint" and math.isclose(r.budget, found.budget)]
        if rows:
            row = min(rows, key=lambda each: each.batch_size)
            speed_up = times_faster(row, test.rows)
            before = milliseconds(row.median_ms * speed_up)
            told = f"{milliseconds(row.median_ms)} instead of {before}, measured by {test.runtime}"
            return speed_up, f"{told} on {test.device}, batch of {row.batch_size}"
    told = f"{milliseconds(joint.latency_ms)} instead of {milliseconds(original.latency_ms)}"
    told += f", measured on {found.device}, batch of 1"
    return original.latency_ms / joint.latency_ms, told


def _share(part: float) -> str:
    named = {0.5: "Half", 1 / 3: "A third", 0.25: "A quarter", 0.75: "Three quarters"}
    for value, name in named.items():
        if value * 0.97 <= part <= value * 1.001:
            return name
    return f"{100 * part:.0f} %"


def _pace(speed_up: float) -> str:
    if abs(speed_up - 1.0) < _SAME_SPEED:
        return f"no faster ({speed_up:.2f} ×)"
    return f"{speed_up:.2f} times as fast" if speed_up > 1.0 else f"slower ({speed_up:.2f} ×)"


def verdict(words: Words, found: Comparison, joint: Judged) -> str:
    """Say how the joint choice did against the best control, and whether the seeds can tell."""
    if not found.controls:
        return "No controls were run: add --controls to spend the same budget on each axis alone."
    same = [each for each in found.controls if each.scale == joint.scale]
    others = [each for each in found.controls if each.scale != joint.scale]
    opening, control = "The joint choice is", "the best control"
    if same:
        named = f"The joint choice is {label_of(same[0].name)}"
        if not others:
            return f"{named}, and there is no other control."
        opening, control = f"{named}. It is", "the best other control"
    best = max(others, key=lambda each: each.accuracy)
    gap = joint.accuracy - best.accuracy
    less = "as accurate as" if abs(gap) < 5e-5 else f"{words.size(abs(gap))} "
    less += "" if abs(gap) < 5e-5 else "more accurate than" if gap > 0 else "less accurate than"
    told = f"{opening} {less} {control}, {label_of(best.name)} ({words.measured(best)})"
    if joint.spread is None or best.spread is None:
        return f"{told}. With one seed the noise of training is not known: repeat with --seeds 3."
    doubt = gap_doubt(joint.accuracies, best.accuracies, best_of=len(others))
    if math.isinf(doubt):
        return f"{told}. The seeds gave the same scores: their scatter tells nothing."
    within = "within" if abs(gap) <= doubt else "beyond"
    return f"{told}: {within} what the scatter of seeds explains (95 %: ± {words.size(doubt)})."
