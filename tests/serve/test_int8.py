"""An INT8 model is served as any other, with an index of its own codes."""

from pathlib import Path

import pytest

from scdh.errors import ScdhError
from scdh.model.hasher import Hasher
from scdh.serve.settings import Settings
from tests.cli.commands import must
from tests.serve.conftest import picture
from tests.serve.hosted import hosted


def test_an_int8_model_is_served_and_an_index_of_float32_codes_is_rejected(shop: Path, tmp_path: Path) -> None:
    model, codes, index = tmp_path / "int8", tmp_path / "photos.codes", tmp_path / "photos.index"
    Hasher.load(shop / "model").quantised([picture(seed) for seed in range(12)], workers=0).save(model)
    must(["encode", str(model), f"{shop}/photos", "--workers", "0", "--out", str(codes)])
    must(["index", str(codes), "--out", str(index)])
    with hosted(Settings(str(model), str(index), f"{shop}/photos", engine="torch")) as site:
        model_info = site.http.get("/v1/info").json()["model"]
        assert (model_info["fingerprint"], model_info["precision"]) == (Hasher.load(model).fingerprint(), "int8")
        answer = site.http.post("/v1/search/image?k=3", files={"image": picture(3)}).json()
        assert answer["results"][0]["hits"][0]["distance"] == 0
    with (
        pytest.raises(ScdhError, match="model"),
        hosted(Settings(str(model), f"{shop}/photos.index", f"{shop}/photos", engine="torch")),
    ):
        pass
