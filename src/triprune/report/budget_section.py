"""Owns the section that answers for any budget: slider, read-out, curves and surface."""

from __future__ import annotations

from triprune.core.choice import Quote
from triprune.core.scale import AXES
from triprune.report import tables
from triprune.report.budget_curves import BudgetPicture, label_of
from triprune.report.contents import Report
from triprune.report.markup import NOTHING, Markup, element, figure, folded, joined, section
from triprune.report.payload import Drawn, start_of
from triprune.report.wording import Words


def budget(report: Report, drawn: Drawn) -> Markup:
    """Return the slider, what it says, the curves and the surface."""
    if drawn.picture is None or not drawn.picture.curves[0].quotes:
        return NOTHING
    noun = report.spending.noun
    stops, words = [quote for quote, _ in drawn.stops(report)], Words(report.in_percent)
    split = "validation images" if report.lattice is not None else "the observations' own data"
    lede = (
        f"Predicted from {len(report.observations)} observations, without new training. "
        f"Observations and predictions are on {split}"
        + ("; finished models on the test split." if report.finished else ".")
    )
    lattice = (
        " Every stop is a scale that this model can take, in whole blocks, channels and pixels."
        if report.lattice is not None
        else ""
    )
    off = report.cost_error
    if off is not None:
        lattice += (
            f" Between scales that were {report.spending.made}, a fitted cost stands in for the "
            f"{noun}; it is off by at most {100 * off:.1f} % on those that were."
        )
    quotes = folded(tables.quotes_table(stops[::-1], words, report.spending))
    curves = figure(
        "budget",
        "Accuracy to expect",
        f"by remaining {noun}; shaded: the 90 % interval; dotted: beyond the observations",
    )
    legend = _legend(report, drawn)
    cards = [element("div", curves, legend, _guesses(drawn.picture), quotes, class_="card")]
    surface = _surface(report, drawn)
    cards += [element("div", surface, class_="card")] if surface else []
    return section(
        "Move the budget",
        lede + lattice,
        _slider(report, stops),
        element("div", _readout(noun), class_="card"),
        element("div", *cards, class_="pair"),
    )


def _slider(report: Report, stops: list[Quote]) -> Markup:
    label = element(
        "label",
        element("span", f"Budget: the part of the {report.spending.noun} that may remain"),
        element("output", "", id="budget-value", for_="budget"),
        for_="budget",
    )
    control = element(
        "input",
        type="range",
        id="budget",
        min=0,
        max=len(stops) - 1,
        step=1,
        value=start_of(report, stops),
        disabled=True,
        autocomplete="off",
    )
    return element("div", label, control, class_="slider")


def _readout(noun: str) -> Markup:
    def pair(name: str, value: str, small: str) -> Markup:
        told = element("dd", element("span", "", id=value), element("small", "", id=small))
        return element("div", element("dt", name), told)

    bars = [
        element(
            "div",
            element("dt", axis, class_=axis),
            element(
                "dd",
                element("span", "", id=f"kept-{axis}"),
                element("span", element("i", "", id=f"bar-{axis}"), class_=f"bar {axis}"),
                element("small", "", id=f"beyond-{axis}", class_="warn"),
            ),
        )
        for axis in AXES
    ]
    return element(
        "dl",
        pair("Predicted accuracy", "budget-accuracy", "budget-interval"),
        pair(f"Predicted {noun}", "budget-amount", "budget-cost"),
        *bars,
        class_="readout",
    )


def _surface(report: Report, drawn: Drawn) -> Markup:
    if drawn.tables is None:
        return element("p", "A predictor of rank above one has no surface here.", class_="lede")
    pairs = [(0, 1), (0, 2), (1, 2)]
    open_pairs = [p for p in pairs if all(len(drawn.tables.axes[i].kept) > 1 for i in p)]
    if not open_pairs:
        return NOTHING
    choices = [
        element(
            "label",
            element("input", type="radio", name="pair", value=f"{i},{j}", checked=k == 0),
            element("span", f"{AXES[i]} × {AXES[j]}"),
        )
        for k, (i, j) in enumerate(open_pairs)
    ]
    ramp = element(
        "div",
        element("span", "", id="surface-low"),
        element("span", "", class_="ramp"),
        element("span", "", id="surface-high"),
        class_="scale",
    )
    seen = Words(report.in_percent)
    return joined(
        element("fieldset", element("legend", "Which two axes"), *choices, class_="choices"),
        figure(
            "surface",
            "Predicted accuracy over two axes",
            "line: the budget; dot: the choice",
            ramp,
            element("p", "", id="surface-note", class_="figure-line"),
        ),
        folded(tables.surface_table(drawn.tables, seen)),
    )


def _legend(report: Report, drawn: Drawn) -> Markup:
    assert drawn.picture is not None
    items = [
        element("li", element("i", "", class_=curve.name), label_of(curve.name))
        for curve in drawn.picture.curves
    ]
    items.append(element("li", element("i", "", class_="point original"), "observed"))
    if report.finished:
        items.append(element("li", element("i", "", class_="open joint"), "finished, on test"))
    return element("ul", *items, class_="legend")


def _guesses(picture: BudgetPicture) -> Markup:
    """Say why a dotted curve lies above the joint one, where one does."""
    above = " and ".join(label_of(name) for name in picture.guessed_above())
    if not above:
        return NOTHING
    told = (
        f"Dotted and above joint, {above}: guesses beyond the observations. The joint choice stays "
        "within them wherever that meets the budget."
    )
    return element("p", told, class_="figure-line")
