import dataclasses

from triprune.report import tables
from triprune.report.wording import Words


def test_ways_to_fit_go_by_their_error_and_the_chosen_one_is_marked(full_report):
    predictor = full_report.predictor
    assert len(predictor.ranking) > 3
    chosen = predictor.ranking[-1]  # as when those before it cannot tell their noise
    unknown = dataclasses.replace(chosen, leave_one_out=None)
    other = dataclasses.replace(
        predictor, candidate=chosen, ranking=(chosen, unknown, *predictor.ranking[:-1])
    )
    for fitted in (predictor, other):
        report = dataclasses.replace(full_report, predictor=fitted)
        found = tables.candidates_table(report, Words(in_percent=False))
        errors = [float(row[3]) for row in found.rows if row[3] != "–"]
        assert errors == sorted(errors)
        assert len(errors) == len(predictor.ranking)
        (marked,) = [row for row in found.rows if row[0].startswith("chosen: ")]
        assert marked[3] == f"{fitted.candidate.leave_one_out:.4g}"
        assert bool(found.note) == (found.rows[0] is not marked)
    assert found.rows[-1][3] == "–"
