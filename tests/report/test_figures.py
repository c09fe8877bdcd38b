import io

import pytest
from PIL import Image

from triprune import Observation, Scale, fit_predictor
from triprune.report.contents import Report
from triprune.report.figures import as_bytes, figures


@pytest.fixture(scope="module")
def drawn(full_report, full_drawn):
    return figures(full_report, full_drawn)


def test_every_part_has_a_figure(drawn):
    assert list(drawn) == [
        "comparison",
        "budget",
        "axes",
        "surface",
        "learning",
        "layers",
        "feature-maps",
    ]


def test_png_and_pdf_are_what_they_say(drawn):
    for figure in drawn.values():
        picture = Image.open(io.BytesIO(as_bytes(figure, "png")))
        assert picture.width > 700
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 20
    assert as_bytes(drawn["budget"], "pdf").startswith(b"%PDF")


def test_a_report_draws_only_what_it_has():
    assert figures(Report("net", "stopped")) == {}
    observations = (Observation(Scale(), 90.0), Observation(Scale(width=0.5), 80.0))
    found = figures(Report("x", "y", fit_predictor(observations), observations))
    assert list(found) == ["budget", "axes"]
    assert as_bytes(found["budget"], "png").startswith(b"\x89PNG")
