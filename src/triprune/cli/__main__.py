"""``python -m triprune.cli``: the same as ``triprune``."""

from triprune.cli import main

main()
