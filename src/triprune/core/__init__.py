"""The mathematics of the choice: numpy and scipy, no torch, no files, no clock."""
