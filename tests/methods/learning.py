"""How well a run on digits learned."""

from scdh.config import load_config
from scdh.hasher import Hasher
from tests.methods.harness import query_map


def learned_map(name, **settings):
    """MAP of the queries after a run of a few seconds; codes by chance have 0.1."""
    overrides = {f"method.{key}": value for key, value in settings.items()}
    return query_map(Hasher.train(load_config("demo-digits", overrides={"method.name": name, **overrides}), quiet=True))
