"""The command line: one file a command, each parses, calls one function and prints."""

from scdh.cli.app import main

__all__ = ["main"]
