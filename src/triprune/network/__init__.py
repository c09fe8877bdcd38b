"""Surgery on ``nn.Module`` objects: no data sets, no files."""
