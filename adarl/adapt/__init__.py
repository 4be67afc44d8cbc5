"""HOW: theta of a target from N samples, everything else frozen (Algorithm 1, lines 20 and 21)."""
