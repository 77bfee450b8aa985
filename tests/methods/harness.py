"""What the tests of every method share: which methods there are, their slow twins, networks, batches and short runs.

A method ``name`` of this package has a test file ``tests/methods/test_<name>.py``. It holds the method's slow twin,
written with plain loops from the equation:

- ``slow_loss(net, method, batch, moment)`` gives the value of ``step(...)["loss"]`` for a method that is trained;
- ``slow_fit(features, labels, bits, settings, seed)`` gives the hash outputs of ``features``, a list of n lists of r
  numbers, for a method that is fitted to them.

It may also hold ``TWIN_SETTINGS`` (the method's settings for that comparison, e.g. without noise), ``ALL_ROW_PARTS``
(parts of the loss that count rows without a label too, e.g. {"l_q"}), ``SCALE_FREE`` (True where the loss does not
depend on the norm of u, so that one bit has no gradient), ``TRAINING`` (settings of the short run that must beat LSH)
and ``BITS_STEP`` (where only multiples of it can be the number of bits).
"""

import copy
import importlib
import importlib.util

import torch
from safetensors import safe_open
from safetensors.numpy import load_file

from scdh.config import load_config
from scdh.data.batches.batch import Batch
from scdh.methods.base import MethodData, Moment
from scdh.methods.registry import built_in_names, make_method, method_class
from scdh.nets.network import Network
from scdh.nets.small import FeatureTrunk
from scdh.runs.encoding import KeptOutputs, encode_rows, hash_outputs_of_rows
from scdh.runs.protocol import protocol_of, source_of
from scdh.runs.ranking import score_ranking

METHODS = sorted(built_in_names())
TRAINED = [name for name in METHODS if method_class(name).learns_by_gradient]
FITTED = [name for name in METHODS if not method_class(name).learns_by_gradient]
LABEL_KINDS = {"single": False, "multi": True}

BITS = [1, 12, 13, 48]
CASES = {
    "mixed": [0, 1, -1, 0, 4, 1, -1, 2],  # −1: no label
    "one class": [3, 3, -1, 3],
    "one row": [2],
    "nothing similar": [4, 2, -1, 0, 1],
    "nothing dissimilar": [1, 1, 1],
    "no label": [-1, -1, -1, -1],
}
CLASSES, WIDTH = 5, 6


def label_kinds(name):
    """(method, whether labels are multi-hot) for each kind of labels that the method learns from."""
    return [(name, LABEL_KINDS[kind]) for kind in method_class(name).about.labels]


def load_test_file(name):
    """The method's own test file; one sentence where it, or the twin in it, is missing."""
    twin = "slow_loss(net, method, batch, moment)" if name in TRAINED else "slow_fit(features, labels, bits, ...)"
    module = f"tests.methods.test_{name}"
    if importlib.util.find_spec(module) is not None:
        loaded = importlib.import_module(module)
        if hasattr(loaded, twin.partition("(")[0]):
            return loaded
    raise AssertionError(f"Method {name!r} needs a test file tests/methods/test_{name}.py with its slow twin {twin}.")


def suited_bits(name, bits):
    """The number of bits, or the next one that the method can have."""
    return -(-bits // (step := getattr(load_test_file(name), "BITS_STEP", 1))) * step


def build(name, bits, multi_label=False, settings=None, classes=CLASSES, width=WIDTH):
    """A network on vectors and its method, in double precision, with outputs of size 1."""
    torch.manual_seed(bits)
    method = make_method(name, settings or {}, bits, classes, multi_label)
    net = Network(FeatureTrunk(width, []), width, method.code_bits)
    method.build(net)
    with torch.no_grad():
        layers = [p for key, p in net.head.named_parameters() if key.startswith("hash_layer.")]
        for parameter in layers or net.head.parameters():
            parameter.normal_(std=0.4)
    return net.double(), method.double()


def draw_batch(case, multi_label, seed=0):
    """A batch of embeddings with the labels of a case; with many labels, "mixed" rows have further ones."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor(CASES[case])
    if multi_label:
        multi_hot = labels.unsqueeze(1) == torch.arange(CLASSES)
        if case == "mixed":
            further = torch.rand(multi_hot.shape, generator=generator) < 0.3
            multi_hot |= further & (labels >= 0).unsqueeze(1)
        labels_or_sets = multi_hot.to(torch.uint8)
    else:
        labels_or_sets = labels
    inputs, second_view = torch.randn(2, len(labels), WIDTH, generator=generator, dtype=torch.float64)
    return Batch(inputs, labels_or_sets, 10 * torch.arange(len(labels)), (second_view,))


def select_rows(batch, mask):
    views = tuple(view[mask] for view in batch.other_views)
    return Batch(batch.inputs[mask], batch.labels[mask], batch.rows[mask], views)


def has_label(batch):
    return (batch.labels > 0).any(1) if batch.labels.ndim == 2 else batch.labels >= 0


def prepare(net, method, batch):
    """``method.prepare`` with training rows in shuffled order: those of the batch but its last, and three others.

    Two of the other rows are then seen in a step of their own, so that a method with a table has outputs in it.
    """
    rows = torch.cat([batch.rows[:-1].flip(0), torch.tensor([3, 15, 1007])])
    label_of_row = {int(row): y for row, y in zip(batch.rows, batch.labels, strict=True)}
    unlabelled = torch.zeros_like(batch.labels[0]) if method.multi_label else torch.tensor(-1)
    labels = torch.stack([label_of_row.get(int(row), unlabelled if row == 3 else batch.labels[0]) for row in rows])
    inputs = torch.randn(len(rows), WIDTH, dtype=torch.float64)

    def read(network, value):
        with torch.no_grad():
            return value(network(inputs)).numpy()

    data = MethodData(labels.numpy(), rows.numpy(), read=read)
    method.prepare(net, data)
    method.double()
    earlier = Batch(inputs[[-3, -1]], labels[[-3, -1]], rows[[-3, -1]], (inputs[[-3, -1]],))
    method.step(net, earlier, moment_for(net, method))
    return data


def moment_for(net, method, epoch=2):
    """A time within training, with a teacher that differs from ``net`` where the method has one."""
    if not method.teacher_decay(100):
        return Moment(epoch, 1, 4, 30)
    teacher = copy.deepcopy(net).requires_grad_(False)
    generator = torch.Generator().manual_seed(7)
    for parameter in teacher.parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return Moment(epoch, 1, 4, 30, teacher)


def digits(name, epochs=2, **overrides):
    """Settings of a run on a part of the digits, which takes about a second: too short for a rate that rises first."""
    small = {"data.train_per_class": 40, "data.query_per_class": 20, "train.batch_size": 40, "train.epoch_steps": 10}
    small["train.lr_warm_up"] = 0
    return load_config("demo-digits", overrides={"method.name": name, "train.epochs": epochs, **small, **overrides})


def checkpoint_tensors(run):
    """Everything in a run's checkpoint but its log, which holds times."""
    with safe_open(run / "last.safetensors", framework="numpy") as file:
        return {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118 (not a dictionary)


def same_results(one, other):
    """Whether two files of runs hold the same: of weights the tensors count, as the description holds times."""
    if one.suffix != ".safetensors":
        return one.read_bytes() == other.read_bytes()
    first, second = load_file(one), load_file(other)
    return {name: t.tobytes() for name, t in first.items()} == {name: t.tobytes() for name, t in second.items()}


def query_map(hasher):
    """MAP of the run's queries, ranked as the method says."""
    source = source_of(hasher.config)
    protocol = protocol_of(hasher.config, source)
    outputs = KeptOutputs(hasher, hash_outputs_of_rows(hasher, source, protocol.query))
    query = hasher.encode_outputs(outputs)
    database, _ = encode_rows(hasher, source, protocol.database)
    labels = source.labels[query.ids], source.labels[database.ids]
    return score_ranking(hasher, query, outputs.u, labels[0], database, labels[1]).map
