"""Learning the numbers of a schedule."""
