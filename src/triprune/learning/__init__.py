"""Everything that needs data: models by name, data sets, training, probes."""
