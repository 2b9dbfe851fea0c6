"""The backend without compiled kernels: the bits of `cpu`, and when `auto` takes which."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from test_agreement import BATCHES, ESTIMATORS, graded, rollouts

from ktae import backends as available
from ktae import credit_table, token_advantages, token_credit
from ktae.backends import BACKENDS, Kernel, compiles, take_compiled, units
from ktae.batch import Context, make_batch
from ktae.estimators import KTAE, Estimator, OverUnits, PresenceZ, preset
from ktae.estimators.vocabulary import vocabulary_of_texts

OVER_UNITS = {
    "calibrated": preset("calibrated"),
    "trigrams": preset("trigrams"),
    "position": OverUnits(PresenceZ(), ("position",)),
}


@pytest.mark.parametrize("estimator", (ESTIMATORS | OVER_UNITS).values(), ids=repr)
def test_credit_is_that_of_compiled_kernels_bit_for_bit(estimator: Estimator) -> None:
    nonzero = 0
    for name, batch in BATCHES.items():
        own = graded(batch, estimator)
        base = np.linspace(-1, 1, len(own.groups)) * (own.groups % 2)  # some of them 0, some -0
        arguments = (np.nan_to_num(own.correct), own.token_ids, own.mask, own.groups)
        given = {"correct": own.correct, "base": base, "estimator": estimator}
        expected, got = (
            token_advantages(*arguments, **given, backend=way) for way in ("cpu", "numpy")
        )
        assert got.tobytes() == expected.tobytes(), name
        nonzero += np.count_nonzero(got)
    assert nonzero > 10_000


@pytest.mark.parametrize("vocabulary", [40, 30_000])
def test_ngrams_of_which_few_or_most_occur_once(vocabulary: int) -> None:
    """Where most do, the compiled loops count in another way."""
    own = rollouts([16, 7, 40], 300, vocabulary)
    for estimator in (*OVER_UNITS.values(), OverUnits(KTAE(), ("token", "trigram"))):
        expected, got = (token_credit(*own, estimator, backend=way) for way in ("cpu", "numpy"))
        assert got.tobytes() == expected.tobytes()
        assert np.count_nonzero(got) > 2000


@pytest.mark.parametrize("name", ["paper", "released", "graded z", "sharp z"])
def test_held_out_rollouts_get_what_compiled_kernels_give_them(name: str) -> None:
    estimator, found = ESTIMATORS[name], {}
    own = graded(BATCHES["mostly unknown"], estimator)
    for way in ("cpu", "numpy"):
        context = Context(BACKENDS[way].load().credit)
        batch = make_batch(*own, score_range=estimator.score_range, context=context)
        found[way] = estimator.credit(batch._replace(look_up_unknown=True))
    assert found["numpy"].tobytes() == found["cpu"].tobytes()
    assert np.count_nonzero(found["cpu"][np.isnan(own.correct)]) > 100


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=repr)
def test_tables_are_those_of_compiled_kernels_bit_for_bit(estimator: Estimator) -> None:
    for name, batch in BATCHES.items():
        own = graded(batch, estimator)
        expected, got = (credit_table(*own, estimator, backend=way) for way in ("cpu", "numpy"))
        for column, a, b in zip(expected._fields, expected, got, strict=True):
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes()), (name, column)


TEXTS = [b" a", b"b", b"\n", b" ", b"c\n\n", b".", None, "\u00e9".encode()[:1], b"\n\n\n", b"d "]


@pytest.mark.parametrize("unit", ["bigram", "trigram", "position", "word", "line", "step"])
def test_keys_of_units_are_those_of_compiled_kernels(unit: str) -> None:
    vocabulary = vocabulary_of_texts(TEXTS)
    for width in (1, 2, 31):
        batch = rollouts([16, 3, 1], width, vocabulary=12, seed=width)  # two ids have no text
        for ids in (batch.token_ids, batch.token_ids.astype(np.int32)):
            expected, got = (
                units.array_keys(unit, ids, batch.mask, vocabulary, compiled=way)
                for way in (True, False)
            )
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)
        assert width == 1 or len(np.unique(got)) > 5


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has computed nothing yet."""
    monkeypatch.setattr(Kernel, "any_is_ready", False)
    module = importlib.import_module("ktae.backends")  # its name is a function's in `ktae`
    monkeypatch.setattr(module, "_tokens_left", [100])


@pytest.mark.usefixtures("fresh")
def test_few_tokens_are_not_compiled_for() -> None:
    mask = np.zeros((10, 50), dtype=bool)
    mask[:4, :10] = True
    assert [compiles(mask) for _ in range(4)] == [False, False, True, True]


@pytest.mark.usefixtures("fresh")
def test_who_has_much_to_compute_can_say_so() -> None:
    take_compiled()
    assert compiles(np.ones((1, 1)))


@pytest.mark.usefixtures("fresh")
def test_loaded_kernels_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "any_is_ready", True)
    assert compiles(np.ones((1, 1)))


FIRST_ANSWER = """
import sys
import numpy as np
import ktae
ids = np.array([[1, 2], [1, 3]])
print(ktae.token_credit(ids, ids > 0, [1, 0], [0, 0], {estimator!r}).tolist())
ktae.credit_table(ids, ids > 0, [1, 0], [0, 0])
print([name for name in ("numba", "llvmlite", "scipy") if name in sys.modules])
"""


@pytest.mark.parametrize("estimator", ["paper", "calibrated", "tempo"])
def test_a_first_small_answer_needs_no_compiler(estimator: str) -> None:
    code = FIRST_ANSWER.format(estimator=estimator)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    credit, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    here = token_credit([[1, 2], [1, 3]], [[1, 1], [1, 1]], [1, 0], [0, 0], estimator)
    assert credit == str(here.tolist())


def test_it_is_available_wherever_ktae_is() -> None:
    assert available()["numpy"] == "available"
