"""What the tests of the pages share."""

import importlib.util

import pytest
from pages import DOCS


@pytest.fixture(scope="module")
def tables(request):
    """A script of docs/, which makes a page's tables, as a module: the test file's `SCRIPT`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(DOCS)  # where one finds another
        path = DOCS / f"{request.module.SCRIPT}.py"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
