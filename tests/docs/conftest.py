"""What the tests of the pages share."""

import importlib.util
import json

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


@pytest.fixture
def study_of(tables, tmp_path, monkeypatch):
    """A study whose comparisons with GRPO in accuracy have these intervals."""

    def make(**intervals):
        (tmp_path / "small").mkdir()
        comparisons = [
            {
                "treatment": name, "baseline": "grpo", "outcome": "last_60", "task": "t",
                "kind": "confirmatory", "seeds": [1, 2, 3, 4, 5, 6], "planned": 7,
                "too_few": name.startswith("few"), "interval": interval,
                "difference": None if interval is None else sum(interval) / 2,
                "by_base_model": [{"difference": x} for x in interval or ()],
                "p_value": 0.2 if name == "unsure" else 0.01, "corrected": 0.04,
                "shown": name == "good" or name.startswith("shown"),
            }
            for name, interval in intervals.items()
        ]  # fmt: skip
        content = {"comparisons": comparisons, "matrix": {"outcomes": {"last_60": {"label": "x"}}}}
        (tmp_path / "small" / "results.json").write_text(json.dumps(content), encoding="utf-8")
        monkeypatch.setattr(getattr(tables, "compared", tables), "STUDIES", tmp_path)

    return make
