"""Files with headers that lie, and checksums that match: lengths, places, types, overlaps, nesting, huge numbers.

Damage at random places stops at a checksum. Here the text of a header is changed as a tree of values, and whatever
guards it is recomputed, so that the checks behind the checksums are reached. Each file is rejected in one sentence,
or gives values that fit together; nothing takes memory that the file does not have.
"""

import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from safetensors.torch import load

from scdh.index.store.format import BODY_AT, SLOTS_AT, Slot
from scdh.model.description import EMBEDDED
from scdh.model.folder import tensors_checksum
from scdh.storage.checksums import CHECKSUM
from scdh.storage.tensor_files import CHECKSUMS, _header_checksum
from tests.attack.samples import Stored
from tests.attack.trials import Attack, Failed, contents_or_error

FORGED_A_ROUND = 25
ALLOWED_BYTES = 32 << 20  # in addition to ten times the file
NESTED, HUGE = "brackets within brackets", "a number of 5000 digits"  # stand for what they say
Forge = Callable[[bytes, Random], bytes]


def attacks(stored: list[Stored]) -> Iterator[Attack]:
    """One attack for each kind of file that has a header."""
    for sample in stored:
        if sample.kind in FORGERIES:
            yield Attack(f"forged: {sample.kind}", trial_of(sample), times=FORGED_A_ROUND)


def trial_of(sample: Stored) -> Callable[[Random], str]:
    intact, forge = sample.file.read_bytes(), FORGERIES[sample.kind]

    def trial(random: Random) -> str:
        data = forge(intact, random)
        tracemalloc.start()
        try:
            sample.file.write_bytes(data)
            contents = contents_or_error(sample.read)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            sample.file.write_bytes(intact)
        if peak > 10 * len(intact) + ALLOWED_BYTES:
            raise Failed(f"a file of {len(data)} bytes took {peak} bytes of memory")
        return "rejected" if contents is None else "read"

    return trial


def forge_arrays(data: bytes, random: Random) -> bytes:
    """Of a file of codes or names, with matching checksums."""
    header, body = _split(data)
    metadata = header["__metadata__"]
    checksums = json.loads(metadata.pop(CHECKSUMS))
    header = changed(header, random)
    if isinstance(header, dict) and isinstance(text := header.get("__metadata__"), dict):
        of_tensors = {name: checksums["tensors"].get(name, "") for name in header if name != "__metadata__"}
        text[CHECKSUMS] = json.dumps({"header": _header_checksum(text, of_tensors), "tensors": of_tensors})
    return _joined(header, body)


def forge_weights(data: bytes, random: Random) -> bytes:
    """Of a model: the header, or the description in it with a matching checksum."""
    return _forge_embedded(data, random, EMBEDDED, [EMBEDDED])


def forge_checkpoint(data: bytes, random: Random) -> bytes:
    """Of a checkpoint: the header, or the state in it with a matching checksum."""
    return _forge_embedded(data, random, "state", ["format", "version", "state"])


def _forge_embedded(data: bytes, random: Random, name: str, guarded: list[str]) -> bytes:
    header, body = _split(data)
    metadata = header["__metadata__"]
    if random.random() < 0.4:
        return _joined(changed(header, random), body)
    metadata[name] = _text(changed(json.loads(metadata[name]), random))
    metadata[CHECKSUM] = tensors_checksum(load(data), {key: metadata[key] for key in guarded})
    return _joined(header, body)


def forge_shard(data: bytes, random: Random) -> bytes:
    """Of kept features."""
    header, body = _split(data)
    return _joined(changed(header, random), body)


def forge_index(data: bytes, random: Random) -> bytes:
    """The manifest, or the numbers of a header slot, with matching checksums."""
    fields = [Slot(*struct.unpack_from("<IQQQQ", data, at + 20)) for at in SLOTS_AT]
    newest = max(fields, key=lambda slot: slot.generation)
    if random.random() < 0.3:
        values = list(newest)
        values[random.randrange(1, len(values))] = random.choice((0, 1, BODY_AT, len(data), 1 << 31, (1 << 64) - 1))
        slot, end = Slot(*values), data[BODY_AT:]
    else:
        start, stop = newest.manifest_at, newest.manifest_at + newest.manifest_bytes
        manifest = _text(changed(json.loads(data[start:stop]), random)).encode()
        slot = Slot(zlib.crc32(manifest), newest.generation, start + len(manifest), start, len(manifest))
        end = data[BODY_AT:start] + manifest
    packed = slot.pack()
    return packed + bytes(SLOTS_AT[1] - len(packed)) + packed + bytes(BODY_AT - SLOTS_AT[1] - len(packed)) + end


def forge_table(data: bytes, random: Random) -> bytes:
    """Of a JSON file without a checksum, as after an edit by hand."""
    content = json.loads(data)
    content.pop(CHECKSUM, None)
    return _text(changed(content, random)).encode()


def changed(tree: Any, random: Random) -> Any:
    """The same tree with one to three values replaced, removed, repeated or exchanged."""
    tree = json.loads(json.dumps(tree))
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(tree))
        if not places:
            return tree
        parent, key = random.choice(places)
        how = random.random()
        if how < 0.6:
            parent[key] = hostile_value(parent[key], random)
        elif how < 0.75:
            other, other_key = random.choice(places)
            value = parent[key]
            parent[key] = json.loads(json.dumps(other[other_key]))
            if how < 0.68 and not isinstance(value, dict | list):
                other[other_key] = value
        elif how < 0.9 and isinstance(parent, dict):
            parent[random.choice(("other", "", "packed", "words", "\ud800", "x" * 1000))] = parent.pop(key)
        else:
            parent.pop(key)
    return tree


def hostile_value(value: Any, random: Random) -> Any:
    """Another value in the place of ``value``: often of the same type, as a wrong type is rejected first."""
    if type(value) is int and random.random() < 0.7:
        return random.choice((value + 1, value - 1, -value, 2 * value, value + (1 << 32), 10**18, 1 << 64, -1, 0, 1))
    if isinstance(value, str) and random.random() < 0.5:
        return random.choice((value + " ", value[:-1], "\ud800", "F64", "BF16", "U8", "1", "99", "[" * 5000, "\0"))
    return random.choice(
        (None, True, -1, 0, 1 << 40, 1.5, 1e308, float("nan"), "", "x", [], {}, [[]], [value] * 2, NESTED, HUGE)
    )


def _text(tree: Any) -> str:
    """JSON with what json.dumps would not write in the place of its marks."""
    text = json.dumps(tree)
    return text.replace(json.dumps(NESTED), "[" * 5000 + "]" * 5000).replace(json.dumps(HUGE), "9" * 5000)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(table or list, key) of every value in a tree."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _split(data: bytes) -> tuple[dict[str, Any], bytes]:
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def _joined(header: Any, body: bytes) -> bytes:
    text = _text(header).encode()
    return len(text).to_bytes(8, "little") + text + body


FORGERIES: dict[str, Forge] = {
    "codes": forge_arrays,
    "names of an index": forge_arrays,
    "index": forge_index,
    "weights": forge_weights,
    "checkpoint": forge_checkpoint,
    "kept features": forge_shard,
    "model's config.json": forge_table,
    "run's config.json": forge_table,
    "split": forge_table,
    "scores.json": forge_table,
    "choices.json": forge_table,
    "compare.json": forge_table,
}
