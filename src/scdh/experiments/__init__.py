"""Experiments as code: what is compared with what, on which data, and the page that tells of it."""
