"""Experiments as code: comparisons of methods, the demo, and the pages that show their results."""
