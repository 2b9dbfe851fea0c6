"""The credit of a dump, its strongest tokens, and the files of `ktae score`."""

import json

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saved_outputs import write_lines

from ktae.estimators import KTAE, OverUnits, PresenceZ, preset
from ktae.padding import pad
from ktae.report import comparing, inputs
from ktae.report import frame as frames
from ktae.report.frame import frame_of
from ktae.report.scoring import credit_column, credit_of, score, strongest, write
from ktae.rollouts import record


def random_rollouts(seed=0, n_groups=7):
    """Groups of 1 to 9 rollouts of 0 to 47 tokens, shuffled, with masks and unknown verdicts."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(n_groups), rng.integers(1, 10, n_groups)))
    ids = [rng.integers(0, 30, rng.integers(0, 48)).tolist() for _ in groups]
    masks = [None if rng.random() < 0.5 else (rng.random(len(x)) < 0.8).tolist() for x in ids]
    correct = rng.choice([0.0, 1.0, None], len(groups), p=[0.45, 0.45, 0.1]).tolist()
    table = {
        "group": [f"g{group}" for group in groups],
        "token_ids": pa.array(ids, pa.list_(pa.int32())),
        "mask": pa.array(masks, pa.list_(pa.bool_())),
        "reward": [float(value or 0) for value in correct],
        "correct": correct,
    }
    return pa.table(table)


def frame(rollouts, tokenizer=None):
    return frame_of(inputs.from_record(rollouts, tokenizer))


def credit(rollouts, estimator, tokenizer=None):
    """Each rollout's credit, in the record's order."""
    shown = frame(rollouts, tokenizer)
    return credit_column(shown, credit_of(shown, estimator)).to_pylist()


def arrays(rollouts):
    """What `ktae.token_credit` takes, of the whole file at once."""
    ids_bt, mask_bt = pad(rollouts["token_ids"].to_pylist(), rollouts["mask"].to_pylist())
    correct = np.array(rollouts["correct"].to_pylist(), dtype=float)
    return ids_bt, mask_bt, correct, np.array(rollouts["group"].to_pylist())


def assert_credit(rollouts, estimator, expected_bt):
    for credit_t, expected_t in zip(credit(rollouts, estimator), expected_bt, strict=True):
        np.testing.assert_allclose(credit_t, expected_t[: len(credit_t)], rtol=0, atol=1e-6)


@pytest.mark.parametrize("max_positions", [1, 1000, 1 << 22])
def test_credit_is_the_oracles_however_the_file_is_cut(max_positions, monkeypatch):
    monkeypatch.setattr(frames, "MAX_POSITIONS", max_positions)
    rollouts, estimator = random_rollouts(), preset("released", h3=0)
    assert_credit(rollouts, estimator, oracle.token_credit(*arrays(rollouts), estimator))


def test_graded_credit_is_of_the_rewards():
    rollouts = random_rollouts()
    rewards = np.random.default_rng(1).random(len(rollouts))
    rollouts = rollouts.drop_columns("reward").append_column("reward", [rewards])
    estimator = OverUnits(PresenceZ(graded_rewards=True), ("token", "bigram"))
    ids_bt, mask_bt, correct, groups = arrays(rollouts)
    evidence = np.where(np.isnan(correct), np.nan, rewards)
    assert_credit(
        rollouts, estimator, oracle.token_credit(ids_bt, mask_bt, evidence, groups, estimator)
    )


def test_the_file_holds_what_was_read_and_how_it_was_scored(tmp_path):
    rollouts = random_rollouts()
    rollouts = rollouts.append_column("source", [[str(row) for row in range(len(rollouts))]])
    shown = frame(rollouts)
    write(shown, score(shown, KTAE(h3=0.5)), tmp_path / "s.parquet")
    written = pq.read_table(tmp_path / "s.parquet")
    for name in ("group", "token_ids", "mask", "reward", "correct", "source"):
        assert written[name].to_pylist() == rollouts[name].to_pylist()
    assert written["credit"].to_pylist() == credit(rollouts, KTAE(h3=0.5))
    section = json.loads(written.schema.metadata[b"ktae.credit"])
    assert section == {"estimator": "ktae", "h3": 0.5}


def test_strongest_over_groups():
    """Two groups; the token 1 is in all correct rollouts of the first and half of the second's."""
    rollouts = pa.table(
        {
            "group": ["g"] * 4 + ["h"] * 4 + ["all right"] * 2,
            "token_ids": [[1, 9], [1, 1, 9], [2, 9], [2, 2, 9], [1], [3], [2], [2, 2], [1], [6]],
            "reward": [1.0, 1, 0, 0] * 2 + [1, 1],
            "correct": [1.0, 1, 0, 0] * 2 + [1, 1],
        }
    )
    shown = frame(rollouts)
    supporting, opposing = strongest(shown, score(shown, "paper"))
    assert [token.token_id for token in supporting] == [1, 3]
    assert [token.token_id for token in opposing] == [2]
    first = supporting[0]
    assert (first.a, first.n_correct, first.b, first.n_incorrect, first.groups) == (3, 4, 0, 4, 2)
    credit_g, credit_h = (x[0] for x in credit(rollouts, "paper")[0:5:4])
    assert first.impact == pytest.approx(credit_g * 1.0 + credit_h * 0.5)
    assert first.credit == pytest.approx((credit_g * 1.0 + credit_h * 0.5) / 1.5)
    all_correct = frame(rollouts.slice(8))
    assert strongest(all_correct, score(all_correct, "paper")) == ([], [])


def test_a_response_without_tokens_makes_no_group_mixed():
    rows = [("a", "x", 0.0), ("a", "", 1.0), ("b", "x", 0.0), ("b", "y", 1.0)]
    names = ("group", "response", "correct")
    table = pa.Table.from_pylist([dict(zip(names, x, strict=True)) | {"reward": 0.0} for x in rows])
    made = frame(record.conform(table))
    assert (made.have(1) & made.have(0)).tolist() == [False, True]
    assert len(set(made.origins.prompt_g.tolist())) == 2  # two groups without a prompt


def test_the_p_values_of_several_inputs_are_corrected_together(tmp_path):
    files = []
    for number in range(3):
        rows = [
            {"prompt": f"p{i}", "response": f"r{j}", "reward": float(i < 4 * number)}
            for i in range(16)
            for j in range(2)
        ]
        files.append(write_lines(tmp_path / f"{number}.jsonl", rows))
    first, second = comparing.compare_sides(frame_of(inputs.load(files)))
    assert second.p == pytest.approx(2 * 2.0**-7) and first.p == pytest.approx(2.0**-3)
