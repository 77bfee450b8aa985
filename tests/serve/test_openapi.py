"""Requests made up from the OpenAPI document: every answer has a form that the document promises."""

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from scdh.serve.settings import Settings
from tests.cli.commands import must
from tests.serve.conftest import TOKEN, save_index, save_model, some_vectors
from tests.serve.hosted import hosted

pytestmark = pytest.mark.slow

EXAMPLES = 8  # of each route


@pytest.fixture(scope="module", params=["pictures", "embeddings"])
def running(request, shop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    settings = Settings(f"{shop}/model", f"{folder}/own.index", f"{shop}/photos", token=TOKEN)
    if request.param == "pictures":
        must(["index", f"{shop}/photos.codes", "--out", f"{folder}/own.index"])
    else:  # of width 2, as the example of the document
        hasher = save_model(folder / "model", width=2)
        codes = hasher.encode(some_vectors(20)[:, :2])
        save_index(folder / "own.index", codes, hasher.fingerprint(), np.arange(20) % 2, ["a", "b"])
        settings = Settings(f"{folder}/model", f"{folder}/own.index", token=TOKEN)
    with hosted(settings) as site:
        yield site


def test_answers_are_as_the_document_says(running):
    document = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) == 15
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
    for operation in operations:

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def ask(case):
            case.call_and_validate(headers={"authorization": f"Bearer {TOKEN}"}, checks=checks, timeout=120)

        ask()
    assert running.http.get("/health").status_code == 200


def test_the_examples_of_the_document_are_answered(running):
    """Those that fit the model: an example that is rejected helps no reader."""
    document = running.http.get("/openapi.json").json()
    content = document["paths"]["/v1/search/vector"]["post"]["requestBody"]["content"]["application/json"]
    answer = running.http.post("/v1/search/vector", json=content["example"])
    takes_vectors = running.http.get("/v1/info").json()["model"]["input"] == "embeddings"
    assert answer.status_code == (200 if takes_vectors else 422), answer.text
    if takes_vectors:
        distances = [hit["distance"] for hit in answer.json()["results"][0]["hits"]]
        assert distances == sorted(distances)
        assert any(isinstance(distance, float) for distance in distances)
