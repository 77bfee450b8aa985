"""How well a short run on digits learned."""

from scdh.hasher import Hasher
from tests.methods.harness import query_map


def learned_map(config):
    """MAP of the queries after training; codes by chance have 0.1."""
    return query_map(Hasher.train(config, quiet=True))
