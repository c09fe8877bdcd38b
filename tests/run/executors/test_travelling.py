import sys
from pathlib import Path
from types import ModuleType

import pytest

import triprune
from triprune.errors import ClusterError
from triprune.learning.models import FILE_MODULE, build_model
from triprune.learning.progress import EpochRecord
from triprune.run.executors.travelling import (
    Ears,
    Listener,
    Teller,
    look,
    modules_of_model_files,
)
from triprune.run.store import Store

RECORD = EpochRecord(1, 2, 0.1, 1.0, 0.5, 0.5, 1.0, 10.0)


class Notes:
    def __init__(self):
        self.told = []

    def on_epoch(self, training, record):
        self.told.append((training, record.epoch))

    def on_end(self, training, note):
        self.told.append((training, note))


def test_news_reach_those_at_home_and_a_lost_worker_is_told():
    ears, notes = Ears(), Notes()
    listener = Listener([notes])
    first, second = Teller(0, ears.hear), Teller(1, ears.hear)
    first.begin()
    second.begin()
    first.on_step("depth 0.8", epoch=1, done=0.5)
    first.on_epoch("depth 0.8", RECORD)
    first.begin()
    first.on_end("depth 0.8", "finished")
    second.begin()
    for news in ears.take():
        listener.hear(news)
    assert ears.take() == []
    lost = "its worker was lost; another goes on"
    assert notes.told == [
        ("depth 0.8", 1),
        ("depth 0.8", lost),
        ("depth 0.8", "finished"),
        ("piece 2", lost),
    ]


def test_a_worker_of_another_version_is_refused(tmp_path):
    with pytest.raises(ClusterError, match=r"the run has 0\.0\.1\. install the same version"):
        look(Store(tmp_path).for_workers(), "0.0.1")


def test_a_model_file_travels_with_the_neighbours_it_imports(tmp_path):
    (tmp_path / "neighbour_layers.py").write_text("from torch.nn import Identity as Layer\n")
    file = tmp_path / "lone_net.py"
    file.write_text("import neighbour_layers\n\ndef make():\n    return neighbour_layers.Layer()\n")
    build_model(f"{file}:make")
    try:
        found = {module.__name__ for module in modules_of_model_files()}
        assert {"_triprune_model_lone_net", "neighbour_layers"} <= found
        assert not {"torch", "triprune", "pytest"} & found
    finally:
        del sys.modules["_triprune_model_lone_net"], sys.modules["neighbour_layers"]


def test_triprune_does_not_travel_with_a_model_file_that_lies_above_it(monkeypatch):
    file = Path(triprune.__file__).parents[2] / "net.py"
    above = ModuleType(f"{FILE_MODULE}net")
    above.__file__ = str(file)
    monkeypatch.setitem(sys.modules, above.__name__, above)
    found = {module.__name__ for module in modules_of_model_files()}
    assert above.__name__ in found
    assert not {name for name in found if name.partition(".")[0] == "triprune"}
