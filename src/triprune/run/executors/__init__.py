"""Where independent pieces of work run: here, side by side, or on a Ray cluster."""
