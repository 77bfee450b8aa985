"""How well a run on digits learned."""

from scdh.model.hasher import Hasher
from scdh.training.defaults import FOR_EMBEDDINGS
from tests.methods.harness import digits, query_map


def learned_map(name):
    """MAP of the queries after 400 steps on 1,000 rows with the settings for embeddings; codes by chance have 0.1."""
    return query_map(Hasher.train(digits(name, 40, **FOR_EMBEDDINGS, **{"data.train_per_class": 100}), quiet=True))
