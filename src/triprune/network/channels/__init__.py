"""Follows every channel through a forward pass: which belong together, and what each is worth."""
