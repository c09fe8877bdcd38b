"""Owns the page: one HTML file with its styles, script and numbers inside, that asks for nothing.

The page's own policy forbids it the network and any script but the one whose hash it names.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from triprune.report import answer_sections, budget_section, evidence_sections
from triprune.report.contents import Report
from triprune.report.markup import Markup, element, joined
from triprune.report.payload import Drawn, payload

_SCRIPTS = ("chart.js", "budget.js", "surface.js", "evidence.js")


def to_page(report: Report, drawn: Drawn | None = None) -> str:
    """Return the report as one self-contained, interactive HTML page."""
    drawn = Drawn.of(report) if drawn is None else drawn
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = joined(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", f"triprune: {report.subject}"),
        element("style", Markup(_asset("page.css"))),
    )
    parts = (
        answer_sections.opening(report),
        answer_sections.comparison(report),
        budget_section.budget(report, drawn),
        evidence_sections.axes(report, drawn),
        evidence_sections.surgery(report),
        evidence_sections.gallery(report),
        evidence_sections.learning(report),
        evidence_sections.origin(report),
        element("noscript", element("p", "Charts need JavaScript; their tables do not.")),
        element("footer", "Made by triprune. This page asks for nothing from the network."),
    )
    body = joined(
        element("main", *parts),
        element("script", Markup(payload(report, drawn)), type="application/json", id="data"),
        element("script", Markup(script)),
    )
    page = element("html", element("head", head), element("body", body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _script() -> str:
    return '"use strict";\n(() => {\n' + "".join(map(_asset, _SCRIPTS)) + "})();\n"


def _asset(name: str) -> str:
    return (resources.files("triprune.report") / "web" / name).read_text(encoding="utf-8")
