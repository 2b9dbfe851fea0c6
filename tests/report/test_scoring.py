"""The credit of a dump, its strongest tokens, and the files of `ktae score`."""

import json

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from ktae import CreditTable, InputError
from ktae.estimators import KTAE, OverUnits, PresenceZ, preset
from ktae.report import frame as frames
from ktae.report import inputs
from ktae.report.frame import frame_of
from ktae.report.scoring import credit_column, credit_of, score, strongest, tokens_table, write
from ktae.rollouts import record


def letters():
    """A tokenizer of one token a letter, whose id is the letter's code."""
    tokenizer = Tokenizer(models.WordLevel({chr(code): code for code in range(32, 127)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


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
    ids_bt, mask_bt = record.pad(rollouts["token_ids"].to_pylist(), rollouts["mask"].to_pylist())
    correct = np.array(rollouts["correct"].to_pylist(), dtype=float)
    return ids_bt, mask_bt, correct, np.array(rollouts["group"].to_pylist())


def assert_credit(rollouts, estimator, expected_bt):
    for credit_t, expected_t in zip(credit(rollouts, estimator), expected_bt, strict=True):
        np.testing.assert_allclose(credit_t, expected_t[: len(credit_t)], rtol=0, atol=1e-6)


@pytest.mark.parametrize("estimator", [preset("paper"), preset("released", h3=0)], ids=repr)
@pytest.mark.parametrize("max_positions", [1, 1000, 1 << 22])
def test_credit_and_table_are_the_oracles_however_the_file_is_cut(
    estimator, max_positions, monkeypatch
):
    monkeypatch.setattr(frames, "MAX_POSITIONS", max_positions)
    rollouts = random_rollouts()
    assert_credit(rollouts, estimator, oracle.token_credit(*arrays(rollouts), estimator))
    tokens = tokens_table(frame(rollouts), estimator)
    expected = oracle.credit_table(*arrays(rollouts), estimator)
    order = np.lexsort((tokens["token_id"], tokens["group"].to_pylist()))
    assert tokens["group"].take(order).to_pylist() == expected.group.tolist()
    for name in CreditTable._fields[1:]:
        column = tokens[name].to_numpy()[order]
        np.testing.assert_allclose(column, getattr(expected, name), atol=1e-9, err_msg=name)


def test_graded_credit_is_of_the_rewards_and_the_table_of_verdicts():
    rollouts = random_rollouts()
    rewards = np.random.default_rng(1).random(len(rollouts))
    rollouts = rollouts.drop_columns("reward").append_column("reward", [rewards])
    estimator = OverUnits(PresenceZ(graded_rewards=True), ("token", "bigram"))
    ids_bt, mask_bt, correct, groups = arrays(rollouts)
    evidence = np.where(np.isnan(correct), np.nan, rewards)
    assert_credit(
        rollouts, estimator, oracle.token_credit(ids_bt, mask_bt, evidence, groups, estimator)
    )
    of_verdicts = tokens_table(frame(rollouts), PresenceZ())
    assert tokens_table(frame(rollouts), estimator)["a"].equals(of_verdicts["a"])


def test_the_files_hold_what_was_read_and_how_it_was_scored(tmp_path):
    rollouts = random_rollouts()
    rollouts = rollouts.append_column("source", [[str(row) for row in range(len(rollouts))]])
    shown = frame(rollouts)
    out, tokens_out = tmp_path / "s.parquet", tmp_path / "s.tokens.parquet"
    write(shown, score(shown, KTAE(h3=0.5)), out, tokens_out)
    written = record.read_record(out)
    for name in ("group", "token_ids", "mask", "reward", "correct", "source"):
        assert written[name].to_pylist() == rollouts[name].to_pylist()
    assert written["credit"].to_pylist() == credit(rollouts, KTAE(h3=0.5))
    for table in (written, pq.read_table(tokens_out)):
        section = json.loads(table.schema.metadata[b"ktae.credit"])
        assert section == {"estimator": "ktae", "h3": 0.5}


def test_both_files_are_written_or_none(tmp_path, monkeypatch):
    out, tokens_out = tmp_path / "s.parquet", tmp_path / "s.tokens.parquet"
    shown = frame(random_rollouts())
    write(shown, score(shown, "paper"), out, tokens_out)
    before, write_table = (out.read_bytes(), tokens_out.read_bytes()), pq.write_table

    def fail_on_the_second(table, path, **options):
        if "token_id" in table.column_names:
            raise OSError("disk full")
        write_table(table, path, **options)

    monkeypatch.setattr(pq, "write_table", fail_on_the_second)
    shown = frame(random_rollouts(seed=1))
    with pytest.raises(InputError):
        write(shown, score(shown, "paper"), out, tokens_out)
    assert (out.read_bytes(), tokens_out.read_bytes()) == before
    assert len(list(tmp_path.iterdir())) == 2


def test_text_is_tokenized_and_given_tokens_are_not():
    texts = ["so 4", "no 5", "so 4!", ""]
    columns = {"group": ["g"] * 4, "reward": [1.0, 0, 1, 0], "correct": [1.0, 0, 1, 0]}
    ids = [[ord(letter) for letter in text] for text in texts]
    of_text = pa.table(columns | {"response": texts})
    expected = credit(of_text, "paper", letters())
    for given in (ids, [ids[0], None, ids[2], None]):
        rollouts = pa.table(columns | {"response": texts, "token_ids": given})
        assert credit(rollouts, "paper", letters()) == expected
    tokens = tokens_table(frame(of_text, letters()), "paper")
    assert "".join(tokens["token"].to_pylist()) == " !45nos"


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
    assert first.p_value == pytest.approx(1 / 6)  # Σa ≥ 3, or as improbable: (1/6 · 1/2) · 2
    all_correct = frame(rollouts.slice(8))
    assert strongest(all_correct, score(all_correct, "paper")) == ([], [])


def test_p_counts_identical_rollouts_once():
    """Token 1 is in three of four correct rollouts and in none of three incorrect ones. With each
    rollout there twice, p is still that of seven. Where one is there once more, with another
    verdict, p is that of the other six, in whichever order."""
    ids = [[1], [1, 1], [1, 2], [2], [3], [3, 2], [2, 2]]
    rewards = [1.0] * 4 + [0.0] * 3

    def p_values(ids, rewards):
        columns = {"group": ["g"] * len(ids), "token_ids": ids, "reward": rewards}
        shown = frame(pa.table(columns | {"correct": rewards}))
        scored = score(shown, "paper")
        p = {x.token_id: x.p_value for side in strongest(shown, scored) for x in side}
        return p, scored.units.tokens.distinct.tolist()

    expected, counts = p_values(ids, rewards)
    assert expected[1] == pytest.approx(scipy.stats.fisher_exact([[3, 0], [1, 3]])[1])
    assert counts[:2] == [[3, 2, 0], [0, 2, 2]]
    twice, counts_of_twice = p_values([*ids, *ids], [*rewards, *rewards])
    assert twice == pytest.approx({i: expected[i] for i in twice}) and counts_of_twice == counts
    six, counts = p_values(ids[1:], rewards[1:])
    again = [*ids, *ids, ids[0]], [*rewards, *rewards, 0.0]
    for columns in (again, [column[::-1] for column in again]):
        p, counts_of_others = p_values(*columns)
        assert p == pytest.approx({i: six.get(i, p[i]) for i in p}) and counts_of_others == counts
