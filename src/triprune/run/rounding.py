"""Owns channel counts that hardware likes: choosing in multiples, and saying what that costs.

Free channel counts come nearer to the budget and to the predicted optimum; multiples of eight may
run faster. Both are chosen and timed, so that whoever asked for multiples sees the price.
"""

from __future__ import annotations

from dataclasses import replace

from triprune.core.scale import Scale
from triprune.network.hardware import device_name
from triprune.network.latency import measure_latency
from triprune.run import steps
from triprune.run.artifacts import Chosen, Fitted, Spends, Survey
from triprune.run.steps import Case


def choose(
    case: Case, known: Survey, fitted: Fitted, *, budget: float, spends: Spends = "joint"
) -> Chosen:
    """Choose in multiples of ``settings.round_to``; the joint choice is noted beside a free one."""
    chosen = steps.choose(case, known, fitted, budget=budget, spends=spends)
    if case.settings.round_to == 1 or spends != "joint" or known.lattice.channels == 1:
        return chosen
    free = steps.choose(*rounded(case, known, 1), fitted, budget=budget)
    return replace(chosen, note=_comparison(case, known, fitted, chosen, free))


def rounded(case: Case, known: Survey, round_to: int) -> tuple[Case, Survey]:
    """Return the same case with channels in other multiples, and its lattice with it."""
    settings = replace(case.settings, round_to=round_to)
    subject = case.subject.rounded(round_to)
    channels = subject.width_steps() if known.lattice.channels > 1 else 1
    lattice = replace(known.lattice, channels=channels)
    return replace(case, subject=subject, settings=settings), replace(known, lattice=lattice)


def _comparison(case: Case, known: Survey, fitted: Fitted, chosen: Chosen, free: Chosen) -> str:
    """Return one sentence: accuracy, time and macs of both."""
    cases = {"rounded": (case, chosen), "free": (rounded(case, known, 1)[0], free)}
    cuts = {
        name: each.subject.cut(_scale(told), known.block_scores)
        for name, (each, told) in cases.items()
    }
    channels = case.subject.input_size[0]
    sizes = {name: (channels, *[plan.resolution_px] * 2) for name, (_, plan) in cuts.items()}
    models = {name: model for name, (model, _) in cuts.items()}
    timed = measure_latency(models, sizes, device=case.device)
    expected = {name: fitted.predictor(plan.realised) for name, (_, plan) in cuts.items()}
    macs = {name: told.macs / known.macs for name, (_, told) in cases.items()}
    return (
        f"channels in multiples of {case.settings.round_to}: predicted accuracy "
        f"{expected['rounded']:.2%} against {expected['free']:.2%} with free counts, "
        f"{timed['rounded'].median_ms:.2f} ms against {timed['free'].median_ms:.2f} ms (batch of 1 "
        f"on {device_name(case.device)}), {macs['rounded']:.1%} of the macs against "
        f"{macs['free']:.1%}"
    )


def _scale(chosen: Chosen) -> Scale:
    assert chosen.choice is not None
    return chosen.choice.scale
