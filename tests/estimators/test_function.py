"""Estimators of the user's own: what a function is given and must give, and code by its name."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from in_process import ktae as command

import ktae
from ktae import InputError, token_credit
from ktae.batch import make_batch
from ktae.estimators import Function, Scaled, from_section, resolved, to_section, to_text
from ktae.experiments import recipe
from ktae.experiments.run_folder import RunFolder
from ktae.rollouts import record

NAN = float("nan")
IDS = np.array([[5, 6, 7], [5, 6, -9], [6, 7, 7], [5, 5, 6], [-1, -1, -1], [6, 5, 7]])
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]], dtype=bool)
CORRECT = np.array([1, 0, NAN, 0, 1, 1])
GROUPS = np.array(["b", "a", "b", "b", "a", "a"])
EVIDENCE = [0, 1, 3, 5]  # not 2, which nobody could grade, nor 4, which has no token
BATCH = (IDS, MASK, CORRECT, GROUPS)


def presence(token_ids, mask, correct, groups):
    """The token's share of correct rollouts that hold it, less its share of incorrect ones."""
    credit = np.zeros(token_ids.shape)
    for i, t in np.argwhere(mask):
        holds = ((token_ids == token_ids[i, t]) & mask).any(axis=1)
        same = groups == groups[i]
        credit[i, t] = holds[same & correct].mean() - holds[same & ~correct].mean()
    return credit


def test_it_is_given_the_rollouts_that_can_be_evidence():
    calls = []

    def estimate(*arrays):
        calls.append([array.copy() for array in arrays])
        for array in arrays:
            array[:] = 0  # which spoils nothing
        return np.where(calls[0][1], 7.0, NAN)  # what is masked is not looked at

    credit = token_credit(*BATCH, estimate)
    ((token_ids, mask, correct, groups),) = calls
    assert (token_ids.dtype, mask.dtype, correct.dtype) == (np.int64, bool, bool)
    np.testing.assert_array_equal(token_ids[mask], IDS[EVIDENCE][MASK[EVIDENCE]])
    np.testing.assert_array_equal(mask, MASK[EVIDENCE])
    np.testing.assert_array_equal(correct, [True, False, False, True])
    same = GROUPS[EVIDENCE][:, None] == GROUPS[EVIDENCE]
    assert (groups[:, None] == groups).tolist() == same.tolist()
    is_evidence = np.isin(np.arange(6), EVIDENCE)[:, None]
    np.testing.assert_array_equal(credit, np.where(MASK & is_evidence, 7, 0))


def test_its_credit_is_the_ones_that_count():
    """In group b rollout 0 is correct, 3 is not; in a 5 is, 1 is not. These hold token 7."""
    expected = np.zeros((6, 3))
    expected[[0, 5], 2] = 1
    np.testing.assert_array_equal(token_credit(*BATCH, presence), expected)
    tensors = (torch.tensor(IDS), torch.tensor(MASK), torch.tensor(CORRECT), GROUPS)
    credit = token_credit(*tensors, lambda *x: torch.from_numpy(presence(*x)).half())
    assert credit.dtype == torch.float32
    np.testing.assert_array_equal(credit.numpy(), expected)


def test_unknown_rollouts_that_are_looked_up_get_the_mean_of_equal_tokens():
    estimator = Function(lambda ids, *_: np.broadcast_to(np.arange(ids.shape[1]), ids.shape))
    batch = make_batch([[7, 8, 7], [8, 8, 9], [7, 9, 5]], np.ones((3, 3)), [1, 0, NAN], [0] * 3)
    credit = estimator.credit(batch._replace(look_up_unknown=True))
    assert credit[2].tolist() == [1.0, 2.0, 0.0]


def test_without_evidence_it_is_not_called():
    def never(*_):
        raise AssertionError

    assert not token_credit(IDS, MASK, np.full(6, NAN), GROUPS, never).any()
    nothing = np.zeros((0, 3), dtype=int)
    assert token_credit(nothing, nothing, np.zeros(0), np.zeros(0, int), never).shape == (0, 3)


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        (lambda i, m, c, g: c, r"<lambda>.*\(4,\)"),
        (lambda i, m, c, g: i.astype(str), r"<lambda>.*\(4, 3\)"),
        (lambda i, m, c, g: [[1.0], []] * 2, "<lambda>"),
        (lambda i, m, c, g: np.where(c[:, None], 1.0, NAN) * m, r"<lambda>.*nan.* 5 .* 1;"),
    ],
    ids=["a number a rollout", "text", "ragged", "not finite"],
)
def test_what_is_no_credit_is_refused(estimate, message):
    with pytest.raises(InputError, match=message):
        token_credit(*BATCH, estimate)


CODE = """
import dataclasses, pathlib
import numpy as np
from ktae.estimators import Centred, Estimator, Function, preset

pathlib.Path(__file__).with_suffix(".was-run").touch()

def ends(token_ids, mask, correct, groups):
    return np.where(correct[:, None], 0.5, -0.5) * mask

@dataclasses.dataclass(frozen=True, repr=False)
class Ends(Estimator):
    weight: float = 1.0
    on_host = True

    def credit(self, batch):
        return self.weight * Function(ends).credit(batch)

centred = Centred(preset("paper"))
number = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A module on Python's path, in a folder that is not the current one."""
    file = tmp_path / f"own_{tmp_path.name}.py".replace("-", "_")
    file.write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    return file


@pytest.mark.parametrize("by_file", [True, False])
def test_functions_classes_and_values_have_a_name(file, by_file):
    module = str(file) if by_file else file.stem
    ends = np.array([[0.5, 0.5], [-0.5, 0]], dtype=np.float32)
    for section, expected in (
        (f"{module}:ends", ends),
        ({"estimator": f"{module}:Ends", "weight": 3.0}, 3 * ends),
        ({"estimator": f"{module}:ends", "transforms": [{"scaled": {"factor": 2.0}}]}, 2 * ends),
    ):
        named = from_section(section)
        assert to_section(named) == section
        estimator = resolved(named)
        got = ktae.token_credit([[1, 2], [3, 4]], [[1, 1], [1, 0]], [1, 0], [0, 0], estimator)
        np.testing.assert_allclose(got, expected)
        assert to_section(estimator) == section  # as a recipe keeps it
    by_text = ktae.token_credit(
        [[1, 2], [3, 4]], [[1, 1], [1, 0]], [1, 0], [0, 0], f"{module}:ends"
    )
    np.testing.assert_array_equal(by_text, ends)
    assert to_text(resolved(from_section(f"{module}:ends"))) == f"{module}:ends"
    assert to_text(resolved(from_section(f"{module}:centred"))).startswith('{"estimator": "ktae"')


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("no_such:x", {}, "no_such"),
        ("{file}:end", {}, "'end'.*'ends'"),
        ("{file}:number", {}, ":number"),
        ("{file}:ends", {"weight": 2}, ":ends"),
        ("{file}:Ends", {"height": 2}, ":Ends.*'height'"),
    ],
)
def test_what_is_no_estimator_says_what_is_expected(file, name, settings, message):
    section = {"estimator": name.format(file=file)} | settings
    with pytest.raises(InputError, match=message):
        resolved(from_section(section))


def test_an_error_of_the_code_is_its_own(file):
    file.write_text("import no_such_library\n")
    with pytest.raises(InputError, match="no_such_library"):
        resolved(from_section(f"{file}:x"))
    file.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        resolved(from_section(f"{file}:x"))


def test_a_run_folder_that_names_code_runs_none(file, tmp_path, capsys):
    """The same name, given by the user, does."""
    run = RunFolder(tmp_path / "run")
    run.create(f"name: r\nsteps: 1\ncredit: {file}:ends\n")
    columns = {"group": ["a"] * 2, "token_ids": [[1, 2], [3]], "reward": [1.0, 0.0]}
    columns["correct"] = columns["reward"]
    record.write(record.conform(pa.table(columns)), run.rollouts / "step-00001.parquet")
    assert recipe.load(run.recipe).credit == from_section(f"{file}:ends")
    arguments = ["show", run.path, "--json"]
    assert command(*arguments) == 0
    with pytest.raises(InputError, match=f"{file}:ends is your own code"):
        token_credit(*BATCH, from_section(f"{file}:ends"))
    assert not file.with_suffix(".was-run").exists()
    assert command(*arguments, "-e", f"{file}:ends") == 0
    assert file.with_suffix(".was-run").exists()
    assert "0.5" in capsys.readouterr().out


def test_a_recipe_that_is_trained_and_the_trainers_take_the_name(file, tmp_path, capsys):
    from ktae.trainers.settings import Settings

    path = tmp_path / "recipe.yaml"
    path.write_text(f"name: r\nsteps: 1\ncredit: {{estimator: {file.stem}:Ends, weight: 2.0}}\n")
    assert command("train", path, "--dry-run") == 0
    assert f"estimator: {file.stem}:Ends" in capsys.readouterr().out
    assert command("train", path, "--dry-run", f"credit={file.stem}:Enn") == 2
    assert "did you mean" in capsys.readouterr().err
    scaled = Scaled(from_section(f"{file}:ends"), 2.0)
    assert Settings(scaled).tried().estimator == resolved(scaled)
