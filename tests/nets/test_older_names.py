"""Models of earlier versions: their tensors had other names, and their fingerprints must not change with the names."""

import hashlib
from pathlib import Path

import pytest
from safetensors.torch import load_file

from scdh.codes import Codes
from scdh.errors import ModelError
from scdh.hasher import Hasher
from scdh.runs.folder import RunFolder

FILES = Path(__file__).parents[1] / "legacy" / "files"
MODELS = sorted(folder.name for folder in (FILES / "models").iterdir())


def fingerprint_of_tensors(tensors):
    """As the earlier version computed it: sorted names, each followed by its bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", MODELS)
def test_fingerprints_are_those_of_the_older_names(name, tmp_path):
    tensors = load_file(FILES / "models" / name / "model.safetensors")
    assert not [key for key in tensors if key.startswith("head.")]
    hasher = Hasher.load(FILES / "models" / name)
    assert hasher.fingerprint() == fingerprint_of_tensors(tensors)
    hasher.save(tmp_path / "model")
    assert [key for key in load_file(tmp_path / "model" / "model.safetensors") if key.startswith("head.")]
    assert Hasher.load(tmp_path / "model").fingerprint() == hasher.fingerprint()


@pytest.mark.parametrize(("run", "network"), [("scdh", None), ("mt_scdh", "teacher"), ("mt_scdh", "student")])
def test_codes_of_an_earlier_version_name_the_model_as_it_is_read_now(run, network):
    folder = RunFolder(FILES / "runs" / run)
    codes = Codes.load(folder.codes("query", network))
    assert codes.metadata["model"] == folder.load_model(network).fingerprint()


def test_a_model_with_a_tensor_too_many_is_refused(tmp_path):
    from safetensors.torch import save_file

    hasher = Hasher.load(FILES / "models" / "scdh_c")
    hasher.save(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, "head.fc9.weight": tensors["head.centres"].clone()}, file)
    with pytest.raises(ModelError, match=r"another version.*head\.fc9\.weight"):
        Hasher.load(tmp_path / "model")
