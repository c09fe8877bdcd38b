"""The shell around the mathematics: the order of steps, files, machines."""
