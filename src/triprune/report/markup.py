"""Owns making HTML: whatever is not markup already is escaped, so that no name can become code."""

from __future__ import annotations

import html

from triprune.report.tables import Table

_MOST_ROWS = 1000
"""More than anybody reads; a page stays small."""

_VOID = {"img", "input", "meta"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


NOTHING = Markup("")


def element(tag: str, /, *children: str, **attributes: str | int | bool | None) -> Markup:
    """Return an element; children that are no markup, and all attributes, are escaped.

    A trailing underscore in an attribute's name goes, other underscores become hyphens. True is
    an attribute without a value; None and False are left out.
    """
    opened = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        named = key.rstrip("_").replace("_", "-")
        told = "" if value is True else f'="{html.escape(str(value))}"'
        opened.append(f"{named}{told}")
    start = f"<{' '.join(opened)}>"
    return Markup(start if tag in _VOID else f"{start}{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Return the children one after the other, escaped where they are no markup."""
    return Markup("".join(c if isinstance(c, Markup) else html.escape(c) for c in children))


def table(content: Table) -> Markup:
    """Return a table that scrolls inside its own box."""
    head = element("tr", *(element("th", name, scope="col") for name in content.columns))
    shown = content.rows[:_MOST_ROWS]
    rows = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell) for cell in row[1:]),
            class_="joint" if row[0].startswith("joint") else None,
        )
        for row in shown
    ]
    told = f"{content.title}; {content.note}" if content.note else content.title
    if len(shown) < len(content.rows):
        told += f"; the first {len(shown):,} of {len(content.rows):,} rows"
    parts = element("caption", told), element("thead", head), element("tbody", *rows)
    return element(
        "div",
        element("table", *parts),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=content.title,
    )


def folded(content: Table) -> Markup:
    """Return a chart's table, folded away."""
    return element("details", element("summary", f"Table: {content.title}"), table(content))


def figure(kind: str, name: str, description: str, *below: str, **data: str | int) -> Markup:
    """Return the place where a script draws a chart, named for those who cannot see it."""
    plot = element(
        "div",
        class_="plot",
        role="img",
        aria_label=f"Chart: {name}. {description}",
        data_chart=kind,
        **data,
    )
    caption = element("figcaption", name, element("span", description))
    return element("figure", caption, plot, *below)


def section(title: str, lede: str, *parts: str) -> Markup:
    """Return a part of the page under its title."""
    told = element("p", lede, class_="lede") if lede else ""
    return element("section", element("h2", title), told, *parts)
