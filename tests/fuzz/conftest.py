"""One folder that the inputs of a whole run are written to, over and over."""

import pytest


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")
