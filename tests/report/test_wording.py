import dataclasses

import pytest

from triprune.core.measured import Judged
from triprune.core.scale import Scale
from triprune.report.amounts import count
from triprune.report.contents import Comparison, Report
from triprune.report.wording import Words, answer

SCALES = {
    "original": Scale(),
    "joint": Scale(0.8, 0.8, 1),
    "depth": Scale(depth=0.5),
    "width": Scale(width=0.7),
}


def model(name, *accuracies, scale=None, macs=1000, latency_ms=2.0):
    return Judged(name, scale or SCALES[name], 32, accuracies, macs, 500, latency_ms)


def finished(*models):
    return Report("net", "finished", finished=(Comparison(0.5, models, "cpu", 1, 1),))


ORIGINAL = model("original", 0.94)


def test_the_answer_says_smaller_faster_and_how_accurate():
    joint = model("joint", 0.93, 0.932, macs=490, latency_ms=1.25)
    told = answer(finished(ORIGINAL, joint))
    assert told.sentence == "Half of the compute, 1.60 times as fast, 0.90 points less accurate."
    smaller, faster, accuracy = told.figures
    assert smaller[1] == "49.0 %"
    assert faster[1:] == ("1.60 ×", "1.25 ms instead of 2.00 ms, measured on cpu, batch of 1")
    assert accuracy[1] == "93.10 ± 0.14 %"
    assert "−0.90 points from the original's 94.00 %" in accuracy[2]
    assert "2 seeds" in accuracy[2]
    assert told.verdict.startswith("No controls were run")


def test_a_model_that_is_slower_and_better_is_not_praised_for_speed():
    told = answer(finished(ORIGINAL, model("joint", 0.95, macs=310, latency_ms=4.0)))
    assert told.sentence == "31 % of the compute, slower (0.50 ×), 1.00 points more accurate."


@pytest.mark.parametrize(
    ("joint", "control", "told"),
    [
        (
            (0.93, 0.931),
            (0.90, 0.901),
            "(90.05 ± 0.07 %): beyond what the scatter of seeds explains (95 %: ± 0.44 points)",
        ),
        (
            (0.90, 0.901),
            (0.93, 0.931),
            "3.00 points less accurate than the best control, width alone",
        ),
        ((0.93, 0.90), (0.91, 0.915), "within what the scatter of seeds explains"),
        ((0.93,), (0.91,), "(91.00 %). With one seed the noise of training is not known"),
    ],
)
def test_the_verdict_weighs_the_gap_against_the_seeds(joint, control, told):
    found = finished(
        ORIGINAL, model("joint", *joint), model("depth", 0.5), model("width", *control)
    )
    assert told in answer(found).verdict
    assert "width alone" in answer(found).verdict


def test_a_joint_choice_that_is_one_axis_is_told_and_weighed_against_the_others():
    joint = model("joint", 0.93, 0.931, scale=SCALES["width"])
    width = model("width", 0.93, 0.931)
    told = answer(finished(ORIGINAL, joint, model("depth", 0.9, 0.901), width)).verdict
    assert told == (
        "The joint choice is width alone. It is 3.00 points more accurate than the best other "
        "control, depth alone (90.05 ± 0.07 %): beyond what the scatter of seeds explains "
        "(95 %: ± 0.30 points)."
    )
    told = answer(finished(ORIGINAL, joint, width)).verdict
    assert told == "The joint choice is width alone, and there is no other control."


def test_a_bench_is_believed_before_the_runs_own_latency(full_report):
    assert answer(full_report).figures[1][1:] == (
        "1.60 ×",
        "5.00 ms instead of 8.00 ms, measured by torch on cpu, batch of 1",
    )
    other = dataclasses.replace(full_report, speed=())
    assert "measured on cpu, batch of 1" in answer(other).figures[1][2]


def test_scores_that_are_no_fractions_are_written_as_they_are():
    words = Words(in_percent=False)
    assert words.score(31.25) == "31.25"
    assert words.gap(-0.5) == "−0.5"
    assert words.score(float("inf")) == "–"
    assert Words(in_percent=True).gap(-1e-6) == "±0.00 points"
    assert not finished(model("original", 31.0), model("joint", 30.0)).in_percent


def test_counts_are_short():
    assert [count(n) for n in (12, 4_300, 125_700_000, 4.1e9)] == [
        "12",
        "4.30 k",
        "125.70 M",
        "4.10 G",
    ]


def test_seeds_that_all_score_the_same_tell_nothing():
    found = finished(ORIGINAL, model("joint", 0.93, 0.93), model("depth", 0.9, 0.9))
    told = answer(found).verdict
    assert told.endswith("The seeds gave the same scores: their scatter tells nothing.")
