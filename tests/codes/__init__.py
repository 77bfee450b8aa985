"""Tests of src/scdh/codes."""
