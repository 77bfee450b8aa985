"""Names of the distances that order a database, where they are needed without numpy."""

HAMMING = "Hamming distance"
