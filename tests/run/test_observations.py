from __future__ import annotations

from pathlib import Path

import pytest

from triprune import Observation, Scale
from triprune.errors import FileFormatError
from triprune.run.observations import read_observations

HEADER = "depth,width,resolution,accuracy\n"


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes):
        path = tmp_path / "observations.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_a_plain_file_is_read(file):
    found = read_observations(file(HEADER + "1,1,1,0.93\n0.5,1,1,0.91\n"))
    assert found.observations == (Observation(Scale(), 0.93), Observation(Scale(0.5), 0.91))
    assert not found.in_percent
    assert found.are_fractions


def test_percentages_are_recognised(file):
    found = read_observations(file(HEADER + "1,1,1,93\n0.5,1,1,90\n1,0.1,1,0\n"))
    assert found.in_percent
    assert found.observations[0].accuracy == pytest.approx(0.93)


@pytest.mark.parametrize("scores", [("-1.5", "-2"), ("140", "120")])
def test_any_other_score_is_kept(file, scores):
    found = read_observations(file(HEADER + f"1,1,1,{scores[0]}\n0.5,1,1,{scores[1]}\n"))
    assert found.observations[0].accuracy == float(scores[0])
    assert not found.are_fractions


def test_a_byte_order_mark_capitals_spaces_other_columns_and_blank_lines_do_no_harm(file):
    content = b"\xef\xbb\xbf Depth , WIDTH,resolution,accuracy,macs,note\r\n\r\n1,1,1,0.9,125,x\r\n"
    found = read_observations(file(content))
    assert found.observations == (Observation(Scale(), 0.9, macs=125),)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "line 1: the columns depth, width, resolution, accuracy are missing"),
        ("depth,width,accuracy\n1,1,0.9\n", "the columns resolution are missing"),
        (HEADER, "it has no observations"),
        (HEADER + "1,1,1,0.9\n1,abc,1,0.9\n", "line 3: width = 'abc': it is not a number"),
        (HEADER + "1,1,1\n", "line 2: 3 values for 4 columns"),
        (HEADER + "1,1,1.5,0.9\n", "line 2: resolution = 1.5: it lies outside"),
        (HEADER + "1,1,1,nan\n", "line 2: accuracy = nan: it is not a finite number"),
        (HEADER + "0,1,1,0.9\n", "line 2: depth = 0.0"),
        (b"\xff\xfe\x00\x01", "line 1: it is not text in UTF-8"),
        (HEADER.encode() + b"1,1,1,0.9\n1,1,1,0.9 \xe9\n", "line 3: it is not text in UTF-8"),
        (HEADER + '1,1,1,0.9\n1,1,1,"0.9\n', "line 3: it is not CSV"),
        (HEADER + "1,1,1,0.9" + "9" * 200_000 + "\n", "line 2: it is not CSV"),
        (HEADER.replace(",", ";") + "1;1;1;0,9\n", "separated by commas"),
        ("depth,depth,width,resolution,accuracy\n", "the columns depth are repeated"),
        (HEADER + "1,1,0,8,0,9\n", "line 2: 6 values for 4 columns"),
        (HEADER + "1,1,1,93\n0.5,1,1,0.9\n", "0.9 and 93 are both fractions and percentages"),
        (HEADER[:-1] + ",macs\n1,1,1,0.9,inf\n", "line 2: macs = 'inf': it is not a count"),
        (HEADER[:-1] + ",note\n1,1,1,0.9,'a\n\n1,1,x,0.9,\n", "line 4: resolution = 'x'"),
        (HEADER[:-1] + ',note\n1,1,1,0.9,"a\nb"\n1,1,x,0.9,\n', "line 4: resolution = 'x'"),
    ],
)
def test_a_malformed_file_is_refused_by_line_and_reason(file, content, reason):
    with pytest.raises(FileFormatError, match=r"observations\.csv") as caught:
        read_observations(file(content))
    assert reason in str(caught.value)


def test_a_trailing_comma_is_no_value(file):
    assert len(read_observations(file(HEADER + "1,1,1,0.93,\n0.5,1,1,0.91, \n")).observations) == 2


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_file_without_line_ends_does_not_fill_the_memory():
    with pytest.raises(FileFormatError, match="line 1: it is not CSV"):
        read_observations("/dev/zero")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileFormatError, match=r"nothing\.csv: No such file"):
        read_observations(tmp_path / "nothing.csv")
    with pytest.raises(FileFormatError, match="directory"):
        read_observations(tmp_path)


def test_ten_million_rows_are_refused_without_being_held(tmp_path):
    """The reader stops at the first row too many: it never sees what a pipe would still send."""
    path = tmp_path / "large.csv"
    with path.open("w") as stream:
        stream.write(HEADER)
        for _ in range(11):
            stream.write("1,1,1,0.9\n" * 10_000)
    with pytest.raises(FileFormatError, match="more than 100,000 observations"):
        read_observations(path)
