"""Kernels of our own for training steps on a GPU, written in Triton; imported where it is there."""
