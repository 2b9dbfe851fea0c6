"""Recipes and a run folder's metrics: typed files that people write and share."""

import json

from fuzzing import fuzz, mutated, only_input_errors, texts, values
from hypothesis import given
from hypothesis import strategies as st
from yaml_fuzzing import KEYS, SPELT, recipe_content, yaml_files

from ktae import recipe as recipes
from ktae.runs import RunFolder, metrics_by_step

OVERRIDES = st.lists(
    st.builds("{}={}".format, st.sampled_from(KEYS) | texts, texts | st.sampled_from(SPELT))
    | st.sampled_from(["credit.h1=2", "credit=null", "model.path.x=1", "a..b=1", "=", ".=1"])
    | texts,
    max_size=2,
)


@fuzz(150)
@given(data=yaml_files(recipe_content()), overrides=OVERRIDES)
def test_recipes(data, overrides, scratch):
    """A recipe that is taken can be written, compared key by key, and read again."""
    path = scratch / "recipe.yaml"
    path.write_bytes(data)
    with only_input_errors():
        recipe = recipes.load(path, overrides)
        again = scratch / "again.yaml"
        again.write_text(recipes.dump(recipe), encoding="utf-8")
        assert recipes.dump(recipes.load(again)) == recipes.dump(recipe)


LINE = st.dictionaries(st.sampled_from(["step", "data", "reward"]) | texts, values, max_size=4)


@fuzz(80)
@given(lines=st.lists(LINE | values, max_size=4), change=st.data())
def test_metrics_of_a_run_folder(lines, change, scratch):
    folder = RunFolder(scratch / "run")
    folder.path.mkdir(exist_ok=True)
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    folder.metrics.write_bytes(change.draw(mutated(data)) if change.draw(st.booleans()) else data)
    with only_input_errors():
        assert all(isinstance(step, int) for step in metrics_by_step(folder.metrics_files()))
