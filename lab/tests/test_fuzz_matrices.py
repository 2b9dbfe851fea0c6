"""Study matrices with random content: only an InputError may come out."""

import pytest
from fuzzing import fuzz, only_input_errors, texts, values
from hypothesis import given
from hypothesis import strategies as st
from yaml_fuzzing import KEYS, leaves, mappings, yaml_files

from ktae_lab.study import cells, matrix


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A folder for all examples of a test: its files are written anew for each."""
    return tmp_path_factory.mktemp("scratch")


@st.composite
def matrix_content(draw):
    names = draw(st.lists(st.sampled_from(["a", "b", "..", "a/b", "c.d"]) | texts, max_size=3))
    overrides = st.dictionaries(st.sampled_from(KEYS) | texts, leaves | values, max_size=2)
    method = st.fixed_dictionaries(
        {"recipe": st.sampled_from(["recipe.yaml", "../recipe.yaml", "a\0b", "."]) | texts},
        optional={"overrides": overrides},
    )
    content = {
        "name": "m",
        "methods": {name: draw(method) for name in ["a", "b", *names][: draw(st.integers(1, 5))]},
        "seeds": draw(
            st.sampled_from([[0, 1], {"first": 0, "count": 2}, {"first": 0, "count": 10**12}])
            | st.lists(st.integers(-1, 5), max_size=3)
        ),
        "contrasts": draw(
            st.lists(
                st.fixed_dictionaries(
                    {
                        "treatment": st.sampled_from(["a", "b", "c"]),
                        "baseline": st.sampled_from(["a", "b"]),
                        "kind": st.sampled_from(["confirmatory", "exploratory"]) | texts,
                    }
                ),
                max_size=2,
            )
        ),
    }
    fields = [*matrix.Matrix.model_fields, "other"]
    changed = st.dictionaries(st.sampled_from(fields), mappings | leaves | values, max_size=2)
    return content | (draw(changed) if draw(st.booleans()) else {})


@fuzz(300)
@given(data=yaml_files(matrix_content()))
def test_matrices(data, scratch):
    """Every run of a matrix that is taken lies in the study's folder."""
    path = scratch / "matrix.yaml"
    path.write_bytes(data)
    (scratch / "recipe.yaml").write_text("name: r\nsteps: 1\n")
    with only_input_errors():
        loaded = matrix.load(path)
        if len(loaded.seeds) * len(loaded.methods) * max(1, len(loaded.tasks)) < 50:
            runs = scratch / "study" / "runs"
            for cell in cells.expand(loaded, path):
                assert len(cell.digest) == 16
                assert (runs / cell.path).resolve().is_relative_to(runs.resolve())
                assert ".." not in cell.path.parts
