"""Gives a process the protocol ``shared``: local files that are reached through fsspec alone.

As ``sitecustomize`` on the path of a Ray worker it is there before any work is.
"""

import fsspec
from fsspec.implementations.local import LocalFileSystem


class SharedFiles(LocalFileSystem):
    protocol = "shared"

    @classmethod
    def _strip_protocol(cls, path):
        return LocalFileSystem._strip_protocol(str(path).removeprefix("shared://"))


fsspec.register_implementation("shared", SharedFiles, clobber=True)
