"""DQN against plain loops: its losses, its codebooks, its ranking, and a model on disk."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from scdh.codes import Codes
from scdh.errors import ConfigError
from scdh.methods.base import Moment
from scdh.methods.registry import make_method
from scdh.model.hasher import Hasher
from scdh.nets.quantiser import WORDS, ProductQuantiser, k_means
from tests.methods.harness import build, digits, draw_batch, prepare
from tests.reference.slow_methods import dot, labelled_rows, mean, share_a_label, squared_distance

BITS_STEP = 8
TWIN_SETTINGS = {"lam": 0.7, "bottleneck": 20}
TRAINING = {"method.bottleneck": 64}


def slow_words(z, words, parts):
    """The number of the nearest word of each slice, and the vector that these words are."""
    edges = [len(z) * m // parts for m in range(parts + 1)]
    chosen, vector = [], []
    for start, stop in pairwise(edges):
        distances = [squared_distance(z[start:stop], word[start:stop]) for word in words]
        chosen.append(distances.index(min(distances)))
        vector += words[chosen[-1]][start:stop]
    return chosen, vector


def slow_pairs(zs, ys):
    rows = labelled_rows(zs, ys)
    values = []
    for z, y in rows:
        for other, other_y in rows:
            cosine = dot(z, other) / math.sqrt(dot(z, z) * dot(other, other))
            values.append(((1 if share_a_label(y, other_y) else -1) - cosine) ** 2)
    return mean(values)


def slow_loss(net, method, batch, moment):
    zs, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    words, parts = net.head.quantiser.words.tolist(), method.bits // 8
    errors = [squared_distance(z, slow_words(z, words, parts)[1]) for z, _ in labelled_rows(zs, ys)]
    return slow_pairs(zs, ys) + (method.settings.lam * mean(errors) if moment.epoch >= 2 else 0.0)


@pytest.mark.parametrize("bits", [8, 24])
def test_steps_codes_and_distances_with_fitted_codebooks(bits):
    net, method = build("dqn", bits, settings=TWIN_SETTINGS)
    batch = draw_batch("mixed", False)
    data = prepare(net, method, batch)
    method.end_epoch(net, data, Moment(0, 4, 4, 30))
    words = net.head.quantiser.words.tolist()
    with torch.no_grad():
        # Words that no row is, so that the quantization error is not 0.
        net.head.quantiser.words.add_(0.1 * torch.randn(WORDS, 20, dtype=torch.float64))
    assert words != net.head.quantiser.words.tolist()
    for moment in (Moment(1, epochs=30), Moment(2, epochs=30)):
        losses = method.step(net, batch, moment)
        assert losses["loss"].item() == pytest.approx(slow_loss(net, method, batch, moment), rel=1e-9)
        assert (losses["loss"].item() == losses["pairs"].item()) == (moment.epoch < 2)
    z = net(batch.inputs).u.detach()
    codes = Codes.from_signs(method.signs(net, z.numpy()))
    slow = [slow_words(row, net.head.quantiser.words.tolist(), bits // 8) for row in z.tolist()]
    assert codes.packed.tolist() == [chosen for chosen, _ in slow]
    expected = [[-dot(query, vector) for _, vector in slow] for query in z.tolist()]
    np.testing.assert_allclose(method.distances(net, z.numpy(), codes), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(method.outputs_of_codes(net, codes), [vector for _, vector in slow], rtol=1e-12)


def test_k_means_finds_clusters_and_takes_the_rows_where_they_are_few():
    rng = np.random.default_rng(0)
    centres = torch.from_numpy(rng.normal(size=(6, 3)) * 50)
    x = centres[torch.arange(600) % 6] + torch.from_numpy(rng.normal(size=(600, 3)))
    words = k_means(x, 40, np.random.default_rng(1))
    assert torch.cdist(x, words).min(1).values.max() < 10
    few = k_means(x[:5], 16, np.random.default_rng(1))
    assert torch.cdist(x[:5], few).min(1).values.max() == 0
    quantiser = ProductQuantiser(3, 2).double()
    quantiser.fit(x, np.random.default_rng(2))
    again = ProductQuantiser(3, 2).double()
    again.fit(x, np.random.default_rng(2))
    assert torch.equal(quantiser.words, again.words)
    error = (x - quantiser.reconstruct(quantiser.assign(x))).square().sum(1).mean()
    assert error < 0.1 * x.var(0).sum()


def test_codebooks_are_fitted_after_the_first_every_second_and_the_last_epoch(monkeypatch):
    net, method = build("dqn", 8, settings=TWIN_SETTINGS)
    data = prepare(net, method, draw_batch("mixed", False))
    fitted = []
    monkeypatch.setattr(ProductQuantiser, "fit", lambda self, z, rng: fitted.append(rng.integers(10**9)))
    for epoch in range(5):
        method.end_epoch(net, data, Moment(epoch, 4, 4, 5))
    assert len(fitted) == 4  # after epochs 1, 2, 4 and 5
    assert len(set(fitted)) == 4


def test_bits_that_do_not_fill_bytes_are_rejected():
    with pytest.raises(ConfigError, match=r"^DQN needs bits that are a multiple of 8, not 12\.$"):
        make_method("dqn", {}, 12, 5, False)
    with pytest.raises(ConfigError, match=r"method\.bottleneck of at least 6"):
        make_method("dqn", {"bottleneck": 5}, 48, 5, False)


@pytest.mark.slow
def test_a_model_on_disk_has_the_codebooks(tmp_path):
    hasher = Hasher.train(digits("dqn", 2, **TRAINING), tmp_path, quiet=True)
    vectors = np.random.default_rng(0).uniform(0, 16, (30, 64)).astype(np.float32)
    loaded = Hasher.load(tmp_path)
    codes, u = loaded.encode(vectors), loaded.hash_outputs(vectors)
    assert codes == hasher.encode(vectors)
    assert u.shape == (30, 64)
    assert len(set(map(bytes, codes.packed))) > 1
    assert loaded.hash_outputs(vectors[:0]).shape == (0, 32)
