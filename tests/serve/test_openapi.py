"""Requests made up from the OpenAPI document: every answer has a form that the document promises."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from scdh.serve.settings import Settings
from tests.cli.commands import must
from tests.serve.conftest import TOKEN
from tests.serve.hosted import hosted

EXAMPLES = 10  # of each route


@pytest.fixture(scope="module")
def running(shop, tmp_path_factory):
    path = tmp_path_factory.mktemp("openapi") / "own.index"
    must(["index", f"{shop}/photos.codes", "--out", str(path)])
    with hosted(Settings(f"{shop}/model", str(path), f"{shop}/photos", token=TOKEN)) as site:
        yield site


@pytest.mark.slow
def test_answers_are_as_the_document_says(running):
    document = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) == 15
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
    for operation in operations:

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def ask(case):
            case.call_and_validate(headers={"authorization": f"Bearer {TOKEN}"}, checks=checks)

        ask()
