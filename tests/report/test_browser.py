"""The page in a real browser: opened from disk, its slider moved, in both schemes, at two sizes.

Screenshots go to the folder that TRIPRUNE_SCREENSHOTS names, to be looked at.
"""

import itertools
import os
import shutil
import time
from pathlib import Path

import pytest

from triprune import Observation, Scale, fit_predictor
from triprune.report.contents import LearningCurve, Report
from triprune.report.page import to_page
from triprune.report.payload import Drawn
from triprune.run.file_report import report_on_file

playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS SKIPPED: playwright")
EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet56_cifar10.csv"
NAMES = ("chromium", "chromium-browser", "google-chrome")
LAPTOP, PHONE = (1280, 800), (390, 844)


@pytest.fixture(scope="module")
def browser():
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("BROWSER TESTS SKIPPED: no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def built(full_report, csv_report, tmp_path_factory):
    """Return the pages of a full run and of a CSV, and the processor time the first one took."""
    folder = tmp_path_factory.mktemp("pages")
    began = time.process_time()
    (folder / "run.html").write_text(to_page(full_report))
    seconds = time.process_time() - began
    (folder / "csv.html").write_text(to_page(*csv_report))
    one = LearningCurve("depth, round 1", "depth", (0.5,), (0.9,))
    (folder / "short.html").write_text(to_page(Report("short", "x", curves=(one,))))
    for count in (1, 2, 5):
        (folder / f"few-{count}.html").write_text(to_page(few_scores(count)))
    return folder, seconds


def few_scores(count):
    """Return a report on scores that are no fractions: one observation, or some more."""
    scales = [Scale(), Scale(width=0.5), Scale(depth=0.5), Scale(0.5, 0.5), Scale(resolution=0.7)]
    observations = tuple(Observation(s, -3.0 - k) for k, s in enumerate(scales[:count]))
    return Report("scores", "x", fit_predictor(observations), observations)


@pytest.fixture(scope="module")
def csv_report():
    report = report_on_file(EXAMPLE)
    return report, Drawn.of(report)


@pytest.fixture
def visit(browser, built):
    """Return a function that opens a page and fails on errors or requests when the test ends."""
    contexts, complaints = [], []

    def open_page(name, size=LAPTOP, scheme="light"):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        address = (built[0] / f"{name}.html").as_uri()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: (
                None if r.url == address or r.url[:5] == "data:" else complaints.append(r.url)
            ),
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def move(page, stop):
    page.evaluate(
        """(stop) => { const s = document.getElementById('budget'); s.value = stop;
        s.dispatchEvent(new Event('input', { bubbles: true })); }""",
        stop,
    )


def test_the_slider_moves_scale_accuracy_interval_and_macs(visit, full_report, full_drawn):
    page = visit("run")
    stops = full_drawn.stops(full_report)
    ids = ("budget-value", "budget-accuracy", "budget-interval", "budget-amount", "kept-depth")
    seen = []
    for place in (0, len(stops) // 2, len(stops) - 1):
        move(page, place)
        quote, _ = stops[place]
        told = {name: page.inner_text(f"#{name}") for name in ids}
        assert told["budget-value"] == f"{100 * quote.budget:.0f} %"
        assert told["budget-accuracy"] == f"{100 * quote.choice.predicted_accuracy:.2f} %"
        low, high = (f"{100 * end:.2f} %" for end in quote.choice.interval)
        assert told["budget-interval"] == f"90 % interval {low} – {high}"
        assert (
            told["budget-amount"] == f"{quote.choice.cost * full_report.spending.whole / 1e6:.2f} M"
        )
        assert told["kept-depth"] == f"{round(27 * quote.choice.scale.depth)} of 27 blocks"
        seen.append((told, page.inner_html('[data-chart="surface"] g')))
    assert len({str(each) for each in seen}) == 3


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
@pytest.mark.parametrize("name", ["run", "csv", "few-2", "few-5"])
def test_every_axis_of_numbers_has_ticks_that_differ(visit, name, size):
    page = visit(name, size)
    for chart in page.locator('[data-chart]:not([data-chart="comparison"]) svg').all():
        labels = chart.locator('text[text-anchor="end"]').all_text_contents()
        assert len(labels) >= 2, chart.inner_html()
        assert len(set(labels)) == len(labels)
    for chart in page.locator('[data-chart="slice"] > :last-child svg').all():
        labels = chart.locator('text[text-anchor="end"]').all_text_contents()
        assert len(labels) >= 3
        assert labels[0].startswith("−")
        assert labels[-1].startswith("+")


def test_any_range_has_three_ticks_and_not_many(visit):
    page = visit("run")
    for wanted in (3, 4, 5, 6):
        for top in (k / 20 for k in range(20, 200)):
            for low in (-top, 0.37, 0.0):
                found = page.evaluate("(a) => triprune.ticks(...a)", [low, low + top, wanted])
                assert 3 <= len(found) <= wanted + 3
                assert low - 1e-9 <= found[0]
                assert found[-1] <= low + top + 1e-9


def test_no_point_of_a_learning_curve_lies_beyond_the_ticks(visit):
    page = visit("run")
    for measure in ("accuracy", "loss"):
        page.locator(f'input[name="measure"][value="{measure}"]').check()
        for chart in page.locator('[data-chart="learning"] svg').all():
            rules = chart.locator(".rule").evaluate_all(
                "(all) => all.map((r) => +r.getAttribute('y1'))"
            )
            dots = chart.locator(".dot").evaluate_all(
                "(all) => all.map((d) => +d.getAttribute('cy'))"
            )
            assert min(rules) - 1 <= min(dots) <= max(dots) <= max(rules) + 1


def test_a_tick_without_a_label_is_not_drawn(visit):
    for name, epochs in (("run", ["1", "2", "3"]), ("short", ["1"])):
        chart = visit(name).locator('[data-group="depth"] svg')
        labels = chart.locator('text[text-anchor="middle"]').all_text_contents()
        assert labels == [*epochs, "epoch"]
        assert chart.locator(".axis").count() == len(epochs) + 1


def test_the_caption_of_a_wide_table_is_read_without_scrolling(visit):
    page = visit("run", PHONE)
    box = page.locator(".scroll").first
    caption = box.locator("caption")
    assert box.evaluate("(e) => e.scrollWidth > e.clientWidth")
    box.evaluate("(e) => { e.scrollLeft = 200; }")
    inside, outer = caption.bounding_box(), box.bounding_box()
    assert outer["x"] <= inside["x"] + 1
    assert inside["x"] + inside["width"] <= outer["x"] + outer["width"] + 1


def test_the_keyboard_moves_the_slider_to_the_next_per_cent(visit):
    page = visit("csv")
    assert page.inner_text("#budget-value") == "50 %"
    page.focus("#budget")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#budget-value") == "51 %"
    assert "budget 51 %" in page.get_attribute("#budget", "aria-valuetext")


def test_the_slider_begins_at_the_runs_own_choice(visit, full_report):
    page = visit("run")
    assert page.inner_text("#budget-value") == "50 %"
    assert "counted: the run's own choice" in page.inner_text("#budget-cost")
    assert "beyond what was observed" not in page.inner_text(".readout")
    other = visit("csv")
    move(other, 0)
    assert other.inner_text("#beyond-width") == "beyond what was observed"


@pytest.mark.parametrize("name", ["run", "csv"])
def test_the_script_computes_what_the_predictor_says(
    visit, full_report, full_drawn, csv_report, name
):
    report, drawn = (full_report, full_drawn) if name == "run" else csv_report
    tables = drawn.tables
    page = visit(name)
    ranges = [range(0, len(table.kept), max(1, len(table.kept) // 5)) for table in tables.axes]
    places = list(itertools.product(*ranges))
    found = page.evaluate("(places) => places.map((p) => triprune.predicted(p))", places)
    scales = [Scale(*(t.kept[k] for t, k in zip(tables.axes, p, strict=True))) for p in places]
    assert found == pytest.approx([report.predictor(scale) for scale in scales], abs=1e-12)
    costs = page.evaluate("(s) => s.map((each) => triprune.costOf(each))", [[*s] for s in scales])
    assert costs == pytest.approx([report.cost(scale) for scale in scales], rel=1e-12)


def test_the_surface_and_the_learning_curves_have_selectors(visit):
    page = visit("run")
    for selector, name, value in (
        ('[data-chart="surface"]', "pair", "1,2"),
        ('[data-group="depth"]', "measure", "loss"),
    ):
        before = page.inner_html(selector)
        page.locator(f'input[name="{name}"][value="{value}"]').check()
        assert page.inner_html(selector) != before
    assert "depth held where this budget keeps it" in page.inner_text("#surface-note")


def test_a_chart_tells_what_is_under_the_pointer(visit):
    page = visit("run")
    dot = page.locator('[data-chart="comparison"] circle').nth(1)
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    assert page.inner_text(".tip") == "joint: all axes: 93.32 %"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_observations_of_any_score_are_drawn(visit, count):
    page = visit(f"few-{count}", PHONE)
    move(page, 0)
    assert page.locator('[data-chart="budget"] .dot').count() == count
    assert page.inner_text("#budget-accuracy").startswith("-")


def test_hostile_names_are_shown_and_do_nothing(visit):
    page = visit("run")
    assert page.title().startswith("triprune: net.py:<script>")
    assert "<script>document.title='broken'</script>" in page.inner_text(".eyebrow")
    assert page.evaluate("document.scripts.length") == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE])
@pytest.mark.parametrize("name", ["run", "csv"])
def test_it_fits_every_screen_in_both_schemes(visit, name, size, scheme):
    page = visit(name, size, scheme)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    wide = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll') &&
        e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert wide == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, paper[4:-1].split(","))) / 3
    assert (brightness > 200) == (scheme == "light")
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = false")
    folder = os.environ.get("TRIPRUNE_SCREENSHOTS")
    if folder:
        kind = "phone" if size == PHONE else "laptop"
        page.screenshot(path=Path(folder) / f"{name}-{kind}-{scheme}.png", full_page=True)


@pytest.mark.alone
def test_benchmark_size_building_and_time_to_interactive(visit, built, record_property, capsys):
    ready = []
    for _ in range(3):
        page = visit("run")
        ready.append(int(page.evaluate("document.documentElement.dataset.ready")))
    size, seconds = (built[0] / "run.html").stat().st_size, built[1]
    told = f"report: {size / 1e6:.2f} MB, {seconds:.1f} s to build, interactive after {ready} ms"
    record_property("report", told)
    with capsys.disabled():
        print(f"\n{told}")
    assert size < 6_000_000
    assert seconds < 5.0
    assert min(ready) < 1000
