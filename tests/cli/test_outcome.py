"""What is printed of a finished run."""

from triprune.cli.outcome import print_outcome
from triprune.core.measured import Judged
from triprune.core.scale import Scale
from triprune.run.artifacts import Outcome


def test_names_in_brackets_are_no_markup(capsys):
    row = Judged("original", Scale(), 32, (0.9,), 1, 1, 1.0)
    notes = ("a class is called [red]", "an image could not be read: b[/x].png")
    rows = (row, Judged("joint", Scale(), 32, (0.9,), 1, 1, 1.0))
    print_outcome(Outcome(0.5, rows, "cpu", 0, 0, notes))
    printed = capsys.readouterr().out
    for note in notes:
        assert f"note: {note}" in printed
