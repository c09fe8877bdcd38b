"""Reads results and draws them; decides nothing and writes nothing."""
