"""The rival of ``scdh serve``: the same model and codes in a plain FastAPI handler with faiss, as people write it.

``python -m benchmarks.serve_rival MODEL INDEX PORT THREADS``
"""

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import faiss
import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, File, UploadFile
from PIL import Image
from pydantic import BaseModel

from scdh.index import HammingIndex
from scdh.model.hasher import Hasher


class CodesBody(BaseModel):
    codes: list[str]
    k: int = 10


class EagerModel:
    """A model without anything that makes it faster."""

    def __init__(self, folder: str | Path) -> None:
        hasher = Hasher.load(folder)
        self.method, self.network = hasher.method, hasher.network.eval()
        assert hasher.preprocess is not None
        self.preprocess = hasher.preprocess

    def packed(self, content: bytes) -> np.ndarray:
        """The code of an image file, uint8 [1, bytes]."""
        pixels = self.preprocess.evaluation_image(Image.open(io.BytesIO(content)).convert("RGB"))
        with torch.inference_mode():
            u = self.method.hash_outputs(self.network(torch.from_numpy(pixels.copy())[None]))
        return np.packbits(u.numpy() >= 0, axis=1)


def create_app(model: str, index: str) -> FastAPI:
    app = FastAPI()
    eager = EagerModel(model)
    codes = HammingIndex.load(index).codes
    flat = faiss.IndexBinaryFlat(8 * codes.packed.shape[1])
    flat.add(np.ascontiguousarray(codes.packed))
    ids = codes.ids
    assert ids is not None

    def results(packed: np.ndarray, k: int) -> dict[str, Any]:
        distances, rows = flat.search(packed, k)
        found = []
        for code, own_rows, own_distances in zip(packed, rows, distances, strict=True):
            pairs = zip(own_rows.tolist(), own_distances.tolist(), strict=True)
            hits = [{"id": int(ids[row]), "distance": distance} for row, distance in pairs]
            found.append({"code": code.tobytes().hex(), "hits": hits})
        return {"results": found}

    @app.post("/v1/search/code")
    def search_code(body: CodesBody) -> dict[str, Any]:
        packed = np.array([list(bytes.fromhex(code)) for code in body.codes], np.uint8)
        return results(packed, body.k)

    @app.post("/v1/search/image")
    def search_image(image: Annotated[UploadFile, File()], k: int = 10) -> dict[str, Any]:
        return results(eager.packed(image.file.read()), k)

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ok"}

    return app


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[4]))
    faiss.omp_set_num_threads(int(sys.argv[4]))
    uvicorn.run(create_app(sys.argv[1], sys.argv[2]), port=int(sys.argv[3]), log_level="warning")
