"""Owns the top of the page: the answer, and original, joint and controls side by side."""

from __future__ import annotations

import re

from triprune.report import tables
from triprune.report.contents import Report
from triprune.report.markup import NOTHING, Markup, element, figure, joined, section, table
from triprune.report.wording import Words, answer


def opening(report: Report) -> Markup:
    """Return the answer: how much smaller, how much faster, how much accuracy."""
    told = answer(report)
    eyebrow = element("p", element("b", report.subject), f" · {report.state}", class_="eyebrow")
    if told is None:
        unfinished = report.lattice is not None or not report.observations
        heading = (
            "Not finished yet: what is known so far" if unfinished else "What each budget buys"
        )
        return element("header", eyebrow, element("h1", heading))
    cards = [
        element(
            "div",
            element("p", name, class_="figure-name"),
            element("p", value, class_="figure-value"),
            element("p", _unbroken(line), class_="figure-line"),
            class_="card",
        )
        for name, value, line in told.figures
    ]
    return element(
        "header",
        eyebrow,
        element("h1", _unbroken(told.sentence)),
        element("div", *cards, class_="grid"),
        element("p", _unbroken(told.verdict), class_="verdict"),
    )


def _unbroken(text: str) -> Markup:
    """Return the text with every number kept on one line with its sign or unit, options whole."""
    bound = re.sub(r" (?=[×%±]|(?:[kMG]|ms)\b)|(?<=±) ", "\u00a0", text)
    parts = re.split(r"(--\w+ \d+)", bound)
    return joined(
        *(element("span", p, class_="whole") if n % 2 else p for n, p in enumerate(parts))
    )


def comparison(report: Report) -> Markup:
    """Return original, joint and controls side by side, and the measured speed."""
    found, words = report.comparison, Words(report.in_percent)
    if found is None:
        return NOTHING
    seeds = len(found.models[-1].accuracies)
    dots = "each dot a seed, the bar their mean" if seeds > 1 else "one seed each"
    drawn = figure("comparison", "Accuracy on the test split", f"{dots}; dashed: the original")
    parts = [
        element("div", drawn, class_="card"),
        element(
            "div",
            table(tables.comparison_table(found, words, report.spending.noun)),
            class_="card plain",
        ),
    ]
    for test in report.speed:
        parts.append(element("div", table(tables.speed_table(test)), class_="card plain"))
    if len(report.finished) > 1:
        others = table(tables.finished_table(report, words))
        parts.append(element("div", others, class_="card plain"))
    lede = "The controls spend the same budget on one axis only, with the same fine-tuning."
    return section("Against the controls", lede, *parts)
