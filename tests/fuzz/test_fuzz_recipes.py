"""Recipes and a run folder's metrics: typed files that people write and share."""

import json

import yaml
from fuzzing import fuzz, mutated, only_input_errors, scalars, texts, values
from hypothesis import given
from hypothesis import strategies as st

from ktae import recipe as recipes
from ktae.recipe import Recipe
from ktae.runs import RunFolder, metrics_by_step

SECTIONS = ["demo", "model", "rollout", "algorithm", "credit", "optimizer", "trl", "verl"]
KEYS = sorted({*Recipe.model_fields, "path", "language", "group_size", "h1", "estimator", "extra"})
NUMBERS = st.integers(-1, 20) | scalars
SPELT = [
    *("&a [*a]", "&a {b: *a}", "!!binary gIGCgw==", "!!set {a, b}", "2001-13-45", "1e999", ".nan"),
    *("!!python/object/apply:os.system [echo owned]", "!!python/name:os.system", "0x1F", "1:30:00"),
    *("<<: {a: 1}", "? [a, b]\n: 1", "9" * 5000, "[" * 200, "- a\n b", "\t", "%YAML 9", "*missing"),
    *("!!float x", "!!int x", "!!timestamp x", "{? {}: 1}", "2001-01-01", "'\\0'", '"\\uD800"'),
]
leaves = NUMBERS | st.sampled_from(
    ["demo", "math", "sums", "grpo", "paper", "centred", "~nobody/x", "a\0b"]
)
mappings = st.dictionaries(st.sampled_from(KEYS) | texts | st.integers(), leaves | values)


@st.composite
def recipe_content(draw):
    """A recipe that is right, with some keys of some sections replaced."""
    content = {"name": "r", "steps": 2} | draw(mappings if draw(st.booleans()) else st.just({}))
    for section in draw(st.lists(st.sampled_from(SECTIONS), max_size=2)):
        fields = Recipe.model_fields[section].annotation
        names = list(
            getattr(fields, "model_fields", {"estimator": 0, "h1": 0, "transforms": 0, "p": 0})
        )
        content[section] = draw(
            st.dictionaries(st.sampled_from(names) | texts, leaves | values, max_size=3) | leaves
        )
    return content


@st.composite
def yaml_files(draw, content):
    """A mapping as YAML, with something spelt as only YAML can spell it, and damaged at times."""
    try:
        text = yaml.safe_dump(draw(content), allow_unicode=draw(st.booleans()), sort_keys=False)
    except (yaml.YAMLError, ValueError):
        text = "steps: 1\n"
    if draw(st.integers(0, 2)) == 0:
        key = draw(st.sampled_from(["x", "verl: {overrides: {y", "data", "seeds", "steps"]))
        text += f"{key}: {draw(st.sampled_from(SPELT))}{'}}' * ('{' in key)}\n"
    data = text.encode(errors="surrogatepass")
    return draw(mutated(data)) if draw(st.integers(0, 2)) == 0 else data


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
