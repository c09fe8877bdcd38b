from triprune.report.contents import Report
from triprune.report.text import to_text


def test_the_terminal_gets_the_answer_and_the_tables(full_report, full_drawn):
    told = to_text(full_report, full_drawn, width=120)
    assert "Half of the compute, 1.60 times as fast, 0.65 points less accurate." in told
    assert "joint: all axes" in told
    assert "93.37 ± 0.07 %" in told
    assert all(len(line) <= 120 for line in told.splitlines())
    assert "triprune run --out" in told
    for name in ("What every budget buys", "Measured speed: torch on cpu", "Blocks that could go"):
        assert name in told


def test_names_in_brackets_are_no_styles():
    assert "[red]net[/red]" in to_text(Report("[red]net[/red]", "stopped", notes=("[b]n[/b]",)))
    assert "[b]n[/b]" in to_text(Report("net", "stopped", notes=("[b]n[/b]",)))


def test_a_narrow_terminal_still_reads(full_report, full_drawn):
    told = to_text(full_report, full_drawn, width=60)
    assert all(len(line) <= 60 for line in told.splitlines())
