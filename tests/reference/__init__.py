"""Slow, obvious twins of the fast code: plain loops, written to be read and believed."""
