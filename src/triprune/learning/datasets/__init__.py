"""Data sets as they lie on disk, one format a module; each ends in a source of labelled images."""
