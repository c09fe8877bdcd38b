"""Owns compiled kernels between machines: a folder that Triton finds them in by source alone."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from triprune.files import write_atomically


def keep_by_source(folder: Path) -> None:
    """Let Triton keep what it compiles in ``folder``, by a kernel's source, options and device.

    It would tell builds of one release apart, and with them machines. Call it before any kernel is
    launched; both sides need the same release.
    """
    folder = folder.resolve()
    for group in folder.glob("*/__grp__*.json"):
        _put_right(group)
    os.environ["TRITON_CACHE_DIR"] = str(folder)
    os.environ["TRITON_STORE_BINARY_ONLY"] = "1"
    import triton
    from triton.backends.nvidia import compiler
    from triton.runtime import cache

    def of_options(options: Any) -> str:
        # The libraries that come with Triton are named by where they lie.
        known = {name: value for name, value in vars(options).items() if name != "extern_libs"}
        return hashlib.sha256(repr(sorted(known.items())).encode()).hexdigest()

    cache.triton_key = lambda: triton.__version__
    compiler.CUDABackend.hash = lambda self: f"{self.target.arch}"
    compiler.CUDAOptions.hash = of_options


def _put_right(group: Path) -> None:
    """Let a group of files be found where it now lies: Triton writes down where it lay."""
    names = json.loads(group.read_text())["child_paths"]
    here = {name: str(group.with_name(name)) for name in names}
    if here != names:
        write_atomically(group, json.dumps({"child_paths": here}))
