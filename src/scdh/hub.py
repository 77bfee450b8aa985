"""Where a model is (a folder, a run's folder, or a repository on the Hugging Face hub), and its page on the hub."""

from pathlib import Path

from scdh.errors import ModelError

WEIGHTS, DESCRIPTION, CARD = "model.safetensors", "config.json", "README.md"
MODEL_OF_RUN = "model"  # folder of the model within a run's folder


def find_model_folder(folder_or_hub_id: str | Path) -> Path:
    folder = Path(folder_or_hub_id)
    if (folder / MODEL_OF_RUN / DESCRIPTION).exists():
        return folder / MODEL_OF_RUN
    if folder.exists():
        return folder
    text = str(folder_or_hub_id)
    if text.count("/") != 1 or text.startswith((".", "/", "~")):
        raise ModelError(f"There is no model folder {text!r}.")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(text, allow_patterns=[WEIGHTS, DESCRIPTION]))
    except Exception as error:  # the hub's client has many kinds of errors; all mean that it cannot be had
        reason = type(error).__name__
        raise ModelError(
            f"There is no folder {text!r}, and the hub did not give a model of that name ({reason})."
        ) from error


def model_card(title: str, encodes: str, backbone: str, labels: int) -> str:
    """The README that the hub shows for a model."""
    learned = f"learned from {labels} labels" if labels else "learned without labels"
    return (
        "---\nlibrary_name: scdh\ntags: [hashing, image-retrieval]\n---\n\n"
        f"# {title}\n\nEncodes {encodes} with `{backbone}`; {learned}.\n\n"
        "```python\nimport scdh\nhasher = scdh.Hasher.load('folder or hub id')\ncodes = hasher.encode(items)\n```\n"
    )


def upload_folder(folder: Path, repo_id: str, private: bool, token: str | None) -> str:
    """Upload a model folder to a repository of the hub, which is made where it does not exist; returns its address."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    api.create_repo(repo_id, private=private, exist_ok=True)
    return str(api.upload_folder(repo_id=repo_id, folder_path=str(folder)))
