"""What the end-to-end tests share."""

import pytest
from short_base import short_base
from training import ktae


@pytest.fixture(scope="session")
def base(request):
    return short_base(request.config)


@pytest.fixture(scope="module")
def command(request, base):
    """The command line that trains the small run of a test file (its `RECIPE` and `SMALL`) into a
    folder."""
    recipe = request.config.rootpath / "recipes/demo" / request.module.RECIPE

    def make(output, *more, processes=1):
        overrides = [*request.module.SMALL, f"model.path={base}"]
        return ktae("train", recipe, *overrides, "--output", output, *more, processes=processes)

    return make
