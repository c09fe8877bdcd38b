import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from triprune import Lattice, Observation, Scale, fit_predictor, schedule
from triprune.report.contents import Report
from triprune.report.markup import Markup, element, joined, table
from triprune.report.page import to_page
from triprune.report.tables import Table


@pytest.fixture(scope="module")
def page(full_report, full_drawn):
    return to_page(full_report, full_drawn)


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text of scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts, self._kind = [], {}, None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._kind = dict(attrs).get("type", "code") if tag == "script" else None

    def handle_endtag(self, tag):
        self._kind = None

    def handle_data(self, data):
        if self._kind:
            self.scripts[self._kind] = self.scripts.get(self._kind, "") + data


def read(page):
    reader = Reader()
    reader.feed(page)
    return reader


def test_text_is_escaped_and_markup_is_not():
    inside = element("b", "<x>")
    assert inside == "<b>&lt;x&gt;</b>"
    assert element("p", inside, "&", title='"', for_="a", aria_label="l", hidden=True) == (
        '<p title="&quot;" for="a" aria-label="l" hidden><b>&lt;x&gt;</b>&amp;</p>'
    )
    assert element("input", value=None, checked=False) == "<input>"
    assert isinstance(joined("<", inside), Markup)


def test_a_table_without_end_is_cut_and_says_so():
    rows = tuple((str(n), "x") for n in range(1500))
    told = table(Table("Long", ("n", "x"), rows))
    assert told.count("<tr") == 1001
    assert "the first 1,000 of 1,500 rows" in told


def test_names_from_files_never_become_code(page):
    reader = read(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not [a for _, attributes in reader.tags for a in attributes if a.startswith("on")]
    assert {a["src"][:11] for t, a in reader.tags if t == "img"} == {"data:image/"}
    assert "<script>document" not in page
    assert json.loads(reader.scripts["application/json"])["layers"][1][0].startswith("<script>")


def test_the_page_asks_for_nothing(page):
    reader = read(page)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not [1 for tag, _ in reader.tags if tag in ("link", "iframe", "object", "base", "form")]
    policy = next(a["content"] for t, a in reader.tags if "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(reader.scripts["code"].encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}';")
    assert len(page) < 1_000_000


def test_every_chart_has_its_table_and_a_name(page):
    reader = read(page)
    charts = [a for t, a in reader.tags if "data-chart" in a]
    kinds = [a["data-chart"] for a in charts]
    assert sorted(set(kinds)) == ["budget", "comparison", "layers", "learning", "slice", "surface"]
    assert all(a["role"] == "img" and a["aria-label"].startswith("Chart: ") for a in charts)
    for title in (
        "At 50 % of the macs",
        "What every budget buys",
        "Predicted accuracy over two axes",
        "Observations and residuals",
        "Channels of every convolution",
        "Correlation with the original&#x27;s maps",
        "Validation accuracy of every fine-tuning",
    ):
        assert f"<caption>{title}" in page


def test_the_answer_comes_first(page):
    text = re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page, flags=re.S)
    places = [
        text.index(part) for part in ("Half of the compute", "Against the", "Move the budget")
    ]
    assert places == sorted(places)
    assert "93.37 ± 0.07 %" in text
    assert "triprune run --out" in text


def test_the_page_says_why_a_dotted_line_is_above_the_joint_one(page):
    """Channels cost next to nothing here, and joint keeps to as many as were seen to do."""
    plan = schedule(0.5)
    scales = [Scale(), *plan.depth, *plan.width, *plan.resolution]
    seen = tuple(
        Observation(s, 0.9 * s.depth**0.1 * s.width**0.01 * s.resolution**0.2) for s in scales
    )
    report = Report("net", "x", fit_predictor(seen), seen, lattice=Lattice(20, 64, 64))
    assert "Dotted and above joint, width alone: guesses beyond the observations" in to_page(report)
    assert "above joint" not in to_page(dataclasses.replace(report, lattice=None))
    assert "above joint" not in page


def test_the_final_fine_tunings_name_their_colours(page):
    final = page[page.index("Final fine-tunings") :]
    legend = final[final.index("<ul") : final.index("</ul>")]
    assert re.findall(r'<i class="(\w+)"></i>([^<]+)', legend) == [
        ("joint", "joint: all axes"),
        ("width", "width alone"),
    ]


def test_a_number_and_its_unit_stay_on_one_line(page):
    assert "125.70\u00a0M;" in page
    assert "8.00\u00a0ms, measured" in page


def test_an_option_stays_in_one_piece(full_report):
    found = full_report.comparison
    models = tuple(dataclasses.replace(m, accuracies=m.accuracies[:1]) for m in found.models)
    once = dataclasses.replace(full_report, finished=(dataclasses.replace(found, models=models),))
    assert 'repeat with <span class="whole">--seeds 3</span>.' in to_page(once)


def test_an_unfinished_run_shows_what_is_there(full_report):
    blank = Report("net", "stopped, not finished: 0 of at most 12 rounds so far")
    assert "Not finished yet" in to_page(blank)
    few = dataclasses.replace(
        full_report,
        state="running, not finished: 3 of at most 12 rounds so far",
        predictor=fit_predictor(full_report.observations[:4]),
        observations=full_report.observations[:4],
        chosen=(),
        finished=(),
        gallery=None,
    )
    assert "Move the budget" in to_page(few)
    assert "Against the controls" not in to_page(few)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_scores_that_are_no_fractions_and_few_observations(count):
    scales = [Scale(), Scale(depth=0.5), Scale(width=0.5), Scale(resolution=0.5)][:count]
    observations = tuple(Observation(s, 31.0 - 4 * k) for k, s in enumerate(scales))
    report = Report("map", "x", fit_predictor(observations), observations)
    values = json.loads(read(to_page(report)).scripts["application/json"])
    assert values["percent"] is False
    assert values["quotes"][-1]["b"] == 1.0
    assert values["band"] == []


def test_the_band_is_the_interval_of_the_joint_curve(full_report, full_drawn):
    values = json.loads(read(to_page(full_report)).scripts["application/json"])
    joint = full_drawn.picture.curves[0].quotes
    assert values["band"] == [[quote.budget, *quote.choice.interval] for quote in joint]
    assert [name for name, _ in values["curves"]] == ["resolution", "width", "depth", "joint"]


def test_a_predictor_of_rank_two_has_no_surface(full_report):
    ranked = fit_predictor(full_report.observations, rank=2, degree=2, ridge=0.1)
    page = to_page(dataclasses.replace(full_report, predictor=ranked))
    assert "has no surface here" in page
    assert "surface" not in [a.get("data-chart") for _, a in read(page).tags]
