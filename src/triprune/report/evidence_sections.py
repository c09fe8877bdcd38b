"""Owns the rest of the page: why to believe it, what was cut, and where it came from."""

from __future__ import annotations

from triprune.core.scale import AXES
from triprune.report import tables
from triprune.report.bitmap import data_uri, heat, shown
from triprune.report.budget_curves import label_of
from triprune.report.contents import Gallery, Report
from triprune.report.markup import NOTHING, Markup, element, figure, folded, section
from triprune.report.payload import Drawn
from triprune.report.wording import Words


def axes(report: Report, drawn: Drawn) -> Markup:
    """Return the predictor along each axis with its residuals."""
    if not drawn.slices:
        return NOTHING
    words = Words(report.in_percent)
    cards = [
        element(
            "div",
            figure(
                "slice",
                f"{cut.axis.capitalize()} alone",
                "dots observed, line predicted",
                data_index=index,
            ),
            class_="card",
        )
        for index, cut in enumerate(drawn.slices)
    ]
    error = report.predictor.leave_one_out if report.predictor else None
    judged = (
        "Too few observations to leave one out."
        if error is None
        else f"Leave-one-out error: {words.size(error)} (root mean square), the predictor's error "
        "on observations that it was not shown."
    )
    return section(
        "What each axis costs",
        judged,
        element("div", *cards, class_="grid"),
        folded(tables.observations_table(report, words)),
        folded(tables.candidates_table(report, words)),
    )


def surgery(report: Report) -> Markup:
    """Return the channels kept in every layer, and the blocks that went."""
    found = report.surgery
    if not found.layers:
        return NOTHING
    channels = sum(layer.kept for layer in found.layers), sum(layer.whole for layer in found.layers)
    lede = (
        f"{len(found.removed)} of {len(found.blocks)} blocks that could go are gone; "
        f"{channels[0]:,} of {channels[1]:,} channels stay."
    )
    removed = ", ".join(name for name, _ in found.blocks if name in found.removed)
    lede += f" Removed: {removed}." if removed else ""
    drawn = figure(
        "layers",
        "Channels of every convolution",
        "full: kept; pale: cut; red: gone with its block",
        folded(tables.layers_table(found)),
        folded(tables.blocks_table(found)) if found.blocks else "",
    )
    return section("What was cut", lede, element("div", drawn, class_="card"))


def gallery(report: Report) -> Markup:
    """Return the last convolution's maps of every model, on the same images."""
    found = report.gallery
    if found is None:
        return NOTHING
    lede = (
        "Mean absolute activation of the last convolution on the same validation images, and how "
        f"it correlates with the original's over {found.compared} images."
    )
    grid = element(
        "div",
        *_gallery_cells(found),
        class_="gallery",
        style=f"--columns:{len(found.labels)}",
    )
    below = folded(tables.likeness_table(found))
    return section("What it still sees", lede, element("div", grid, below, class_="card"))


def _gallery_cells(found: Gallery) -> list[Markup]:
    cells = [element("div", "image", class_="row")]
    for image, label in zip(found.images, found.labels, strict=True):
        cells.append(element("img", src=data_uri(shown(image)), alt=f"validation image: {label}"))
    for name, maps in found.maps.items():
        small = "" if name == "original" else f"correlation {found.likeness[name]:.2f}"
        cells.append(element("div", label_of(name), element("small", small), class_="row"))
        for one, label in zip(maps, found.labels, strict=True):
            told = f"{label_of(name)}: map of {label}"
            cells.append(element("img", src=data_uri(heat(one)), alt=told))
    cells.append(element("div", "", class_="row"))
    cells += [element("div", label, class_="class") for label in found.labels]
    return cells


def learning(report: Report) -> Markup:
    """Return the learning curves of every round and of the final fine-tunings."""
    if not report.curves:
        return NOTHING
    groups = [g for g in (*AXES, "final") if any(c.group == g for c in report.curves)]
    cards = [
        element(
            "div",
            figure(
                "learning",
                "Final fine-tunings" if group == "final" else f"{group.capitalize()} chain",
                "joint and controls, every seed" if group == "final" else "later rounds stronger",
                _finals_legend(report) if group == "final" else "",
                data_group=group,
            ),
            class_="card",
        )
        for group in groups
    ]
    measures = [
        element(
            "label",
            element("input", type="radio", name="measure", value=value, checked=k == 0),
            element("span", label),
        )
        for k, (value, label) in enumerate(
            (("accuracy", "validation accuracy"), ("loss", "training loss"))
        )
    ]
    return section(
        "How it learned",
        "",
        element("fieldset", element("legend", "Which measure"), *measures, class_="choices"),
        element("div", *cards, class_="grid two"),
        folded(tables.learning_table(report.curves, Words(report.in_percent))),
    )


def _finals_legend(report: Report) -> Markup:
    names = dict.fromkeys(c.name.split(",")[0] for c in report.curves if c.group == "final")
    items = [element("li", element("i", "", class_=name), label_of(name)) for name in names]
    return element("ul", *items, class_="legend")


def origin(report: Report) -> Markup:
    """Return notes, settings, versions, hardware and the exact command."""
    pairs: list[Markup] = []
    for name, value in report.facts:
        told = element("code", value) if name == "command" else value
        pairs += [element("dt", name), element("dd", told)]
    notes = element("ul", *(element("li", note) for note in report.notes), class_="notes")
    found = report.comparison
    epochs = (
        element(
            "p",
            f"{found.epochs} epochs of fine-tuning in all; the recipe in full has "
            f"{found.paper_epochs}.",
        )
        if found is not None and found.epochs
        else ""
    )
    facts = element("div", element("dl", *pairs, class_="facts"), class_="card")
    return section("Where it came from", "", epochs, notes if report.notes else "", facts)
