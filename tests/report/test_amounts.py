import dataclasses

import pytest

from triprune import Observation, Scale
from triprune.report.amounts import Spending, milliseconds
from triprune.report.page import to_page
from triprune.report.text import to_text


def test_an_amount_is_written_in_its_own_unit():
    assert Spending("macs", 4e6).text(0.5) == "2.00 M"
    assert Spending("latency", 12.0).text(0.5) == "6.00 ms"
    assert Spending("paper").text(0.5) == "–"
    assert [milliseconds(x) for x in (0.123, 12.34, 1234.5)] == ["0.12 ms", "12.3 ms", "1,234 ms"]


def test_what_was_counted_is_told_from_what_was_not():
    item = Observation(Scale(), 0.9, macs=50, params=30)
    assert Spending("macs", 100).paid(item) == 0.5
    assert Spending("params", 60).paid(item) == 0.5
    assert Spending("latency", 8.0).paid(item) is None
    assert Spending("macs").paid(item) is None
    assert Spending("macs", 100).paid(Observation(Scale(), 0.9)) is None


@pytest.mark.parametrize(
    ("by", "noun", "whole"), [("latency", "latency", 5.0), ("params", "parameters", 850_000)]
)
def test_a_budget_of_something_else_is_called_so(full_report, by, noun, whole):
    report = dataclasses.replace(full_report, spending=Spending(by, whole))
    page = to_page(report)
    assert f"At 50 % of the {noun}" in page
    assert f"Budget: the part of the {noun} that may remain" in page
    assert f"At 50 % of the {noun}" in to_text(report)
    original, joint = report.comparison.models[:2]
    share = report.share(joint, original)
    assert share == pytest.approx(0.5, abs=0.02)
