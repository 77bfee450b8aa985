"""Find a model (in a folder, a run's folder, or a Hugging Face repository), and write its page on the hub."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from scdh.errors import ModelError

WEIGHTS = "model.safetensors"
DESCRIPTION = "config.json"
CARD = "README.md"
MODEL_OF_RUN = "model"  # folder of the model within a run's folder
HUB = "hf:"  # prefix of an id on the hub: a mistyped folder must not download an untrusted model


def has_model(folder: Path) -> bool:
    """Whether a model was saved in ``folder``: its weights are the first file that is complete."""
    return (folder / WEIGHTS).is_file()


def find_model_folder(folder_or_hub_id: str | Path) -> Path:
    """The folder with the files of a model; one of the hub is downloaded."""
    folder, text = Path(folder_or_hub_id), str(folder_or_hub_id)
    if has_model(folder / MODEL_OF_RUN) or (folder / MODEL_OF_RUN / DESCRIPTION).exists():
        return folder / MODEL_OF_RUN
    if folder.exists():
        return folder
    if not text.startswith(HUB):
        hint = f"; a model of the hub would be {HUB + text!r}" if looks_like_hub_id(text) else ""
        raise ModelError(f"There is no model folder {text!r}{hint}.")
    from huggingface_hub import snapshot_download

    repo_id = text.removeprefix(HUB)
    try:
        return Path(snapshot_download(repo_id, allow_patterns=[WEIGHTS, DESCRIPTION]))
    except Exception as error:  # the hub's client raises many kinds of errors; all mean that the model is not available
        raise ModelError(f"The hub did not return a model {repo_id!r} ({type(error).__name__}).") from error


def looks_like_hub_id(text: str) -> bool:
    """Whether it could be ``owner/name``.

    >>> looks_like_hub_id("owner/name"), looks_like_hub_id("./name"), looks_like_hub_id("a/b/c")
    (True, False, False)
    """
    return text.count("/") == 1 and not text.startswith((".", "/", "~")) and not text.endswith("/")


def model_card(title: str, encodes: str, backbone: str, labels: int) -> str:
    """The README that the hub shows for a model."""
    learned = f"learned from {labels} labels" if labels else "learned without labels"
    return (
        "---\nlibrary_name: scdh\ntags: [hashing, image-retrieval]\n---\n\n"
        f"# {title}\n\nEncodes {encodes} with `{backbone}`; {learned}.\n\n"
        "```python\nimport scdh\nhasher = scdh.Hasher.load('folder, or hf:owner/name')\ncodes = hasher.encode(items)\n"
        "```\n"
    )


def upload_saved(save: Callable[[Path], None], repo_id: str, private: bool, token: str | None) -> str:
    """Upload what ``save`` writes, as :func:`upload_folder`; ``repo_id`` may begin with ``hf:``."""
    with tempfile.TemporaryDirectory() as scratch:
        save(Path(scratch) / "model")
        return upload_folder(Path(scratch) / "model", repo_id.removeprefix(HUB), private, token)


def upload_folder(folder: Path, repo_id: str, private: bool, token: str | None) -> str:
    """Upload a model folder to a repository of the hub, which is created if it does not exist; returns its address."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    api.create_repo(repo_id, private=private, exist_ok=True)
    return str(api.upload_folder(repo_id=repo_id, folder_path=str(folder)))
