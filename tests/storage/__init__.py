"""Tests of src/scdh/storage."""
