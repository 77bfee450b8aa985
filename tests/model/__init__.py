"""Tests of src/scdh/model."""
