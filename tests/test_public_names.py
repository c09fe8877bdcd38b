import subprocess
import sys

import triprune


def test_every_public_name_is_there():
    assert sorted(triprune.__all__) == triprune.__all__
    assert set(triprune._HOME) == set(triprune.__all__) - {"__version__"}
    for name in triprune.__all__:
        assert getattr(triprune, name) is not None


def test_import_does_not_load_torch():
    code = "import sys, triprune; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
