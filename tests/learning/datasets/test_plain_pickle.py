import os
import pickle

import numpy as np
import pytest

from triprune.errors import DataError
from triprune.learning.datasets.plain_pickle import read_plain_pickle


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_plain_arrays_lists_and_bytes_are_read(tmp_path, protocol):
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    content = {b"data": array, b"columns": np.asfortranarray(array), b"labels": [1, 2], b"n": 10}
    file = tmp_path / "batch"
    file.write_bytes(pickle.dumps(content, protocol=protocol))
    found = read_plain_pickle(file)
    assert np.array_equal(found[b"data"], array)
    assert np.array_equal(found[b"columns"], array)
    assert found[b"labels"] == [1, 2]
    assert found[b"n"] == 10


# The opcodes of Python 2, in which the official files are written.
PYTHON2 = (
    b"\x80\x02}q\x01U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04"
    b"K\x00\x85U\x01b\x87Rq\x05(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07"
    b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\x02\x03\x04\x05tbs."
)


def test_a_pickle_of_python_2_is_read(tmp_path):
    file = tmp_path / "batch"
    file.write_bytes(PYTHON2)
    assert read_plain_pickle(file)[b"data"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_code_in_a_pickle_never_runs(tmp_path):
    mark = tmp_path / "owned"
    attacks = [
        {b"data": Evil(os.system, f"touch {mark}")},
        {b"data": Evil(eval, f"open({str(mark)!r}, 'w')")},
        {b"data": Evil(getattr, np.zeros(1), "tofile")},
        {b"data": Evil(np.load, str(mark))},
    ]
    for number, attack in enumerate(attacks):
        file = tmp_path / f"batch{number}"
        file.write_bytes(pickle.dumps(attack, protocol=2))
        with pytest.raises(DataError, match="no plain pickle of arrays"):
            read_plain_pickle(file)
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        np.array([{"x": 1}], dtype=object),
        np.zeros(3, np.float64),
        np.zeros(2, [("a", "u1"), ("b", "O")]),
        np.float32(3.0),
        {1, 2},
        3 + 4j,
    ],
    ids=["objects", "floats", "records", "scalar", "set", "complex"],
)
def test_other_kinds_of_content_are_refused(tmp_path, content):
    file = tmp_path / "batch"
    file.write_bytes(pickle.dumps({b"data": content}, protocol=2))
    with pytest.raises(DataError, match="no plain pickle of arrays"):
        read_plain_pickle(file)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "no plain pickle"),
        (b"not a pickle at all", "no plain pickle"),
        (pickle.dumps([1, 2, 3]), "holds no dictionary"),
        (PYTHON2[:-20], "no plain pickle"),
        (PYTHON2.replace(b"K\x02K\x03\x86", b"K\x02K\x04\x86"), "too few or too many bytes"),
    ],
)
def test_damaged_files_are_refused(tmp_path, raw, said):
    file = tmp_path / "batch"
    file.write_bytes(raw)
    with pytest.raises(DataError, match=said):
        read_plain_pickle(file)
