"""Requests made up from the OpenAPI document: every answer has a form that the document promises."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from scdh.serve.settings import Settings
from tests.cli.commands import must
from tests.serve.conftest import TOKEN
from tests.serve.hosted import hosted

# Methods and routes of the document; a body that is JSON for a form, and the like, are in test_limits.
EXAMPLES = 12


@pytest.fixture(scope="module")
def running(shop, tmp_path_factory):
    path = tmp_path_factory.mktemp("openapi") / "own.index"
    must(["index", f"{shop}/photos.codes", "--out", str(path)])
    with hosted(Settings(f"{shop}/model", str(path), f"{shop}/photos", token=TOKEN)) as site:
        yield site


@pytest.fixture
def document(running):
    return schemathesis.openapi.from_url(f"{running.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("document")


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_answers_are_as_the_document_says(case):
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
    case.call_and_validate(headers={"authorization": f"Bearer {TOKEN}"}, checks=checks)
