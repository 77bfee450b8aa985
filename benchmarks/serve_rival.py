"""The rival of ``scdh serve``: the same model and codes in a plain FastAPI handler with faiss, as people write it.

``python -m benchmarks.serve_rival MODEL INDEX PORT``
"""

import io
import sys
from typing import Annotated, Any

import faiss
import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, File, UploadFile
from PIL import Image
from pydantic import BaseModel

from scdh.hasher import Hasher
from scdh.index import HammingIndex


class CodesBody(BaseModel):
    codes: list[str]
    k: int = 10


def create_app(model: str, index: str) -> FastAPI:
    app, hasher, codes = FastAPI(), Hasher.load(model), HammingIndex.load(index).codes
    flat = faiss.IndexBinaryFlat(8 * codes.packed.shape[1])
    flat.add(np.ascontiguousarray(codes.packed))
    network, preprocess = hasher.network.eval(), hasher.preprocess
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
        assert preprocess is not None
        pixels = preprocess.evaluation_image(Image.open(io.BytesIO(image.file.read())).convert("RGB"))
        with torch.inference_mode():
            u = hasher.method.hash_outputs(network(torch.from_numpy(pixels.copy())[None]))
        return results(np.packbits(u.numpy() >= 0, axis=1), k)

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ok"}

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(sys.argv[1], sys.argv[2]), port=int(sys.argv[3]), log_level="warning")
