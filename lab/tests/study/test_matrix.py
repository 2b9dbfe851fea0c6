"""The matrix file: what it expands to, and what it says about bad input."""

from pathlib import Path

import pytest
import yaml
from small import CONTENT, LAB, ROOT

from ktae import preset
from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.estimators import KTAE, PermutedLabels
from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices


@pytest.fixture
def expand(tmp_path):
    def expand(**changes):
        path = tmp_path / "matrix.yaml"
        path.write_text(yaml.safe_dump(CONTENT | changes))
        return expansion.expand(matrices.load(path), path)

    return expand


def test_seed_by_seed_over_all_methods(expand):
    assert [cell.name for cell in expand(seeds={"first": 100, "count": 2})] == [
        "grpo/seed100",
        "grpo-ktae/seed100",
        "grpo/seed101",
        "grpo-ktae/seed101",
    ]


def test_cycled_base_models_take_turns_over_the_seeds(expand):
    found = expand(seeds=[5, 6, 7], base_models={"demo_seeds": [0, 9], "pairing": "cycled"})
    assert [(c.seed, c.base) for c in found if c.method == "grpo"] == [
        (5, "demo:0"), (6, "demo:9"), (7, "demo:0"),
    ]  # fmt: skip
    assert [c.recipe.model.demo_seed for c in found if c.method == "grpo"] == [0, 9, 0]
    assert [c.recipe.seed for c in found if c.method == "grpo"] == [5, 6, 7]


def test_crossed_base_models_meet_every_seed(expand):
    found = expand(seeds=[5, 6], base_models={"paths": ["a", "b"], "pairing": "crossed"})
    assert [cell.name for cell in found if cell.method == "grpo"] == [
        "grpo/seed5-base0", "grpo/seed5-base1", "grpo/seed6-base0", "grpo/seed6-base1",
    ]  # fmt: skip
    assert {cell.recipe.model.path for cell in found} == {"a", "b"}


def test_a_method_wins_over_a_task_and_a_task_over_the_rest(expand):
    methods = {
        "plain": {"recipe": str(ROOT / "recipes/demo/grpo.yaml")},
        "own": {"recipe": str(ROOT / "recipes/demo/grpo.yaml"), "overrides": {"steps": 9}},
    }
    found = expand(
        methods=methods,
        contrasts=[],
        overrides={"steps": 3, "optimizer.learning_rate": 1e-5},
        tasks={
            "short": {"overrides": {"steps": 5}},
            "usual": {},
            "here": {"overrides": {"steps": 5}, "of_methods": {"own": {"steps": 7}}},
        },
        seeds=[1],
    )
    assert {cell.name: cell.recipe.steps for cell in found} == {
        "short/plain/seed1": 5, "short/own/seed1": 9, "usual/plain/seed1": 3, "usual/own/seed1": 9,
        "here/plain/seed1": 5, "here/own/seed1": 7,
    }  # fmt: skip
    assert {cell.recipe.optimizer.learning_rate for cell in found} == {1e-5}


def test_a_section_comes_before_the_keys_in_it(expand):
    overrides = {"credit.transforms": ["permuted-labels"], "credit": {"estimator": "released"}}
    cell = expand(overrides=overrides)[0]
    assert cell.recipe.credit == PermutedLabels(preset("released"))


def test_a_section_takes_the_place_of_keys_set_for_all(expand):
    recipe = str(ROOT / "recipes/demo/grpo-ktae.yaml")
    methods = {
        "grpo": {"recipe": recipe, "overrides": {"credit": None}},
        "ktae": {"recipe": recipe},
        "own": {"recipe": recipe, "overrides": {"credit.h3": 2}},
        "released": {"recipe": recipe, "overrides": {"credit": "released"}},
    }
    cells = expand(methods=methods, contrasts=[], overrides={"credit.h3": 0}, seeds=[1])
    assert {cell.method: cell.recipe.credit for cell in cells} == {
        "grpo": None, "ktae": KTAE(h3=0), "own": KTAE(h3=2), "released": preset("released"),
    }  # fmt: skip


def test_a_key_for_all_does_not_switch_the_estimator_on(expand):
    with pytest.raises(
        InputError, match=r"method grpo: recipe .*: credit is \{'h3': 0\}; expected"
    ):
        expand(overrides={"credit.h3": 0})


def test_recipes_are_relative_to_the_matrix(tmp_path):
    (tmp_path / "r.yaml").write_text("name: r\nsteps: 2\n")
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep/m.yaml"
    path.write_text("name: m\nmethods: {a: {recipe: ../r.yaml}}\nseeds: [0]\n")
    assert expansion.expand(matrices.load(path), path)[0].recipe.steps == 2


def test_the_digest_follows_every_setting(expand):
    digests = {cell.digest for cell in expand()} | {
        cell.digest for cell in expand(overrides={"steps": 3, "algorithm.clip_high": 0.3})
    }
    assert len(digests) == 12
    assert {cell.digest for cell in expand()} <= digests


def test_recipe_digests_are_of_all_seeds_and_base_models(expand):
    tasks = {"sums": {}, "lists": {"overrides": {"demo.language": "lists"}}}
    bases = {"demo_seeds": [0, 1], "pairing": "crossed"}
    cells = expand(tasks=tasks, base_models=bases)
    found = expansion.recipe_digests(cells)
    assert set(found) == {"sums/grpo", "sums/grpo-ktae", "lists/grpo", "lists/grpo-ktae"}
    assert len(set(found.values())) == 4
    for cell in cells:
        place = expansion.recipe_place(cell.task, cell.method)
        assert expansion.recipe_digests([cell]) == {place: found[place]}


def test_recipe_digests_follow_every_other_setting(expand):
    recipe = str(ROOT / "recipes/demo/grpo.yaml")

    def of(**overrides):
        methods = {"a": {"recipe": recipe, "overrides": overrides}}
        return expansion.recipe_digests(expand(methods=methods, contrasts=[]))["a"]

    settings = {"steps": 9, "model.lora_rank": 4, "credit": "paper", "model.path": "other"}
    assert len({of()} | {of(**{key: value}) for key, value in settings.items()}) == 5
    clip_low = recipes.load(recipe).algorithm.clip_low
    assert clip_low == recipes.Algorithm().clip_low
    assert of(**{"algorithm.clip_low": clip_low}) == of(), "a default is the same, said or not"


def test_the_model_key_tells_base_models_apart(expand):
    tasks = {name: {"overrides": {"demo.language": name}} for name in ("sums", "lists")}
    demo = expand(seeds=[1], tasks=tasks, base_models={"demo_seeds": [0, 1], "pairing": "crossed"})
    assert len({(cell.task, cell.base) for cell in demo}) == 4
    assert len({(cell.task, cell.base, cell.model_key) for cell in demo}) == 4
    assert len({cell.model_key for cell in demo}) == 4
    found = expand(seeds=[1], tasks=tasks, base_models={"paths": ["a"], "pairing": "cycled"})
    assert len({cell.model_key for cell in found}) == 1, "a folder speaks whatever it speaks"
    real = {"a": {"recipe": str(ROOT / "recipes/smollm2/grpo.yaml")}}
    tasks = {f"to{n}": {"overrides": {"task.settings.max_digits": n}} for n in (1, 2)}
    found = expand(seeds=[1, 2], methods=real, contrasts=[], tasks=tasks)
    assert len({cell.task for cell in found}) == 2
    assert len({cell.model_key for cell in found}) == 1, "one model, whatever it is asked"


def test_a_base_model_folder_is_relative_to_where_the_command_runs(tmp_path):
    recipe = ROOT / "recipes/demo/grpo.yaml"
    (tmp_path / "base").mkdir()
    path = tmp_path / "m.yaml"
    path.write_text(
        f"name: m\nmethods: {{a: {{recipe: {recipe}}}}}\nseeds: [0]\n"
        "base_models: {paths: [base], pairing: cycled}\n"
    )
    assert expansion.expand(matrices.load(path), path)[0].recipe.model.path == "base"


BASES = {"demo_seeds": [0], "pairing": "cycled"}
METHOD = CONTENT["methods"]["grpo"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": [1]}, "unknown key 'seed'; did you mean 'seeds'?"),
        ({"methods": {"a": {"recipy": "x"}}}, "methods.a: unknown key 'recipy'; did you mean 'rec"),
        ({"methods": {"a b": METHOD}}, "methods.a b"),
        ({"methods": {}}, "methods: Dictionary should have"),
        ({"seeds": {"first": 1, "cuont": 2}}, "is no range of seeds; expected {first: 100, count"),
        ({"seeds": {"first": 1, "count": 0}}, "count is 0; expected 1 to 10,000"),
        ({"seeds": {"first": 1, "count": 10**12}}, "expected 1 to 10,000"),
        ({"methods": {"..": METHOD}}, "methods..."),
        ({"methods": {"a/b": METHOD}}, "methods.a/b"),
        ({"tasks": {"../..": {}}}, "tasks.../.."),
        ({"methods": {"a": {"recipe": "a\0b"}}}, r"cannot read recipe"),
        ({"seeds": [1, 1]}, "the seed 1 is there twice"),
        ({"seeds": []}, "seeds: "),
        ({"seeds": [-1]}, "seeds.0: Input should be greater"),
        ({"base_models": {"demo_seeds": [0]}}, "base_models.pairing: Field required"),
        ({"base_models": {"pairing": "cycled"}}, "expected either demo_seeds or paths"),
        (
            {"base_models": {"paths": ["a", "demo"], "pairing": "crossed"}},
            "paths has 'demo'; use demo_seeds",
        ),
        ({"outcomes": {"x": {"curve": "entropy", "summary": "after.entropy"}}}, "either summary"),
        ({"outcomes": {"x": {"summary": "after.entropy", "last": 3}}}, "which averages a curve"),
        ({"groups": {"g": ["grpoo"]}}, "groups.g names no method: 'grpoo'; did you mean 'grpo'?"),
        ({"overrides": {"seed": 3}}, "overrides sets seed, which the matrix sets itself"),
        (
            {"tasks": {"x": {"of_methods": {"grpoo": {}}}}},
            "tasks.x.of_methods names no method: 'grpoo'; did you mean 'grpo'?",
        ),
        (
            {"tasks": {"x": {"of_methods": {"grpo": {"seed": 3}}}}},
            "tasks.x.of_methods.grpo sets seed, which the matrix",
        ),
        (
            {"base_models": BASES, "overrides": {"model.path": "x"}},
            "overrides sets model.path, which the matrix",
        ),
    ],
)
def test_bad_input(expand, changes, message):
    with pytest.raises(InputError) as caught:
        expand(contrasts=[], **changes)
    assert message in str(caught.value)
    assert "matrix.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"treatment": "grpo-kate"}, "names no method: 'grpo-kate'; did you mean 'grpo-ktae'?"),
        ({"outcomes": ["sampled_acuracy"]}, "did you mean 'sampled_accuracy'?"),
        ({"outcomes": []}, "contrasts.0.outcomes"),
        ({"treatment": "grpo"}, "compares grpo with itself"),
        ({"kind": "sure"}, "should be 'confirmatory' or 'exploratory'"),
        ({"kindd": "sure"}, "contrasts.0: unknown key 'kindd'; did you mean 'kind'?"),
    ],
)
def test_bad_contrasts(expand, changes, message):
    with pytest.raises(InputError) as caught:
        expand(contrasts=[CONTENT["contrasts"][0] | changes])
    assert message in str(caught.value)


def test_what_was_found_on_some_seeds_is_confirmed_on_others(expand):
    with pytest.raises(InputError, match="2 of the seeds are explored_seeds, such as 2; confirma"):
        expand(explored_seeds={"first": 2, "count": 5})
    exploratory = CONTENT["contrasts"][0] | {"kind": "exploratory"}
    assert expand(explored_seeds={"first": 2, "count": 5}, contrasts=[exploratory])
    assert expand(explored_seeds={"first": 4, "count": 5})


def test_a_bad_override_names_matrix_method_and_recipe(expand):
    with pytest.raises(InputError, match=r"matrix.yaml, method grpo: recipe .*'stepz'; did you me"):
        expand(overrides={"stepz": 3})
    with pytest.raises(InputError, match=r"method a: cannot read recipe .*none.yaml"):
        expand(methods={"a": {"recipe": "none.yaml"}}, contrasts=[])


@pytest.mark.parametrize(
    "path", sorted((LAB / "matrices").glob("*.yaml")), ids=lambda path: path.name
)
def test_committed_matrices(path: Path):
    matrix = matrices.load(path)
    found = expansion.expand(matrix, path)
    assert matrix.name == path.stem
    assert len({cell.path for cell in found}) == len(found)
    assert len({cell.digest for cell in found}) == len(found)


def test_some_methods_only(expand):
    cells = expand(seeds=[100, 101])
    assert [cell.name for cell in expansion.of_methods(cells, ["grpo-ktae"])] == [
        "grpo-ktae/seed100",
        "grpo-ktae/seed101",
    ]
    with pytest.raises(InputError, match=r"--methods names 'grop'; the matrix has grpo, grpo-ktae"):
        expansion.of_methods(cells, ["grop"])
