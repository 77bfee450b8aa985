"""Packed binary codes, and the checks on codes, bits and ids that users give."""

from scdh.codes.codes import FORMAT, HAMMING, RANKING, Codes, ranking_metadata, ranking_of, read_codes, write_codes

__all__ = ["FORMAT", "HAMMING", "RANKING", "Codes", "ranking_metadata", "ranking_of", "read_codes", "write_codes"]
