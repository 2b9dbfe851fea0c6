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
from ktae.report.scoring import score, write
from ktae.report.strongest import strongest
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


def arrays(rollouts):
    """What `ktae.token_credit` takes, of the whole file at once."""
    ids_bt, mask_bt = record.pad(rollouts["token_ids"].to_pylist(), rollouts["mask"].to_pylist())
    correct = np.array(rollouts["correct"].to_pylist(), dtype=float)
    return ids_bt, mask_bt, correct, np.array(rollouts["group"].to_pylist())


@pytest.mark.parametrize("estimator", [preset("paper"), preset("released", h3=0)], ids=repr)
@pytest.mark.parametrize("max_positions", [1, 1000, 1 << 22])
def test_credit_and_table_are_the_oracles_however_the_file_is_cut(estimator, max_positions):
    rollouts = random_rollouts()
    scores = score(rollouts, estimator=estimator, max_positions=max_positions)
    expected_bt = oracle.token_credit(*arrays(rollouts), estimator)
    for ids, credit, expected_t in zip(
        rollouts["token_ids"], scores.record["credit"], expected_bt, strict=True
    ):
        np.testing.assert_allclose(credit.as_py(), expected_t[: len(ids)], rtol=0, atol=1e-6)
    assert np.abs(expected_bt).max() > 0.1
    tokens, expected = scores.tokens, oracle.credit_table(*arrays(rollouts), estimator)
    order = np.lexsort((tokens["token_id"], tokens["group"].to_pylist()))
    assert tokens["group"].take(order).to_pylist() == expected.group.tolist()
    for name in CreditTable._fields[1:]:
        column = tokens[name].to_numpy()[order]
        np.testing.assert_allclose(column, getattr(expected, name), atol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", [PresenceZ])
def test_graded_credit_is_of_the_rewards_and_the_table_of_verdicts(kind):
    rollouts = random_rollouts()
    rewards = np.random.default_rng(1).random(len(rollouts))
    rollouts = rollouts.drop_columns("reward").append_column("reward", [rewards])
    estimator = OverUnits(kind(graded_rewards=True), ("token", "bigram"))
    scores = score(rollouts, estimator=estimator)
    ids_bt, mask_bt, correct, groups = arrays(rollouts)
    evidence = np.where(np.isnan(correct), np.nan, rewards)
    expected_bt = oracle.token_credit(ids_bt, mask_bt, evidence, groups, estimator)
    for credit, expected_t in zip(scores.record["credit"], expected_bt, strict=True):
        credit = credit.as_py()
        np.testing.assert_allclose(credit, expected_t[: len(credit)], rtol=0, atol=1e-6)
    plain = score(rollouts, estimator=kind())
    assert scores.tokens["a"].equals(plain.tokens["a"])


def test_the_record_keeps_what_it_held_and_says_how_it_was_scored():
    rollouts = random_rollouts()
    rollouts = rollouts.append_column("source", [[str(row) for row in range(len(rollouts))]])
    scores = score(rollouts, estimator=KTAE(h3=0.5))
    for name in ("group", "token_ids", "mask", "reward", "correct", "source"):
        assert scores.record[name].to_pylist() == rollouts[name].to_pylist()
    for table in (scores.record, scores.tokens):
        section = json.loads(table.schema.metadata[b"ktae.credit"])
        assert section == {"estimator": "ktae", "h3": 0.5}


def test_groups_are_in_the_records_order_with_their_counts():
    rollouts = pa.table(
        {
            "group": ["z", "a", "z", "a", "one", "z", "empty", "empty"],
            "token_ids": [[1], [1], [2], [3, 1], [1], [1], [], []],
            "reward": [0.0] * 8,
            "correct": [1.0, 1.0, 0.0, 1.0, 1.0, None, 1.0, 0.0],
        }
    )
    scores = score(rollouts)
    assert [(g.label, g.rollouts, g.n_true, g.n_false, g.mixed) for g in scores.groups] == [
        ("z", 3, 1, 1, True),
        ("a", 2, 2, 0, False),
        ("one", 1, 1, 0, False),
        ("empty", 2, 0, 0, False),
    ]
    assert scores.tokens[scores.groups[1].rows]["token_id"].to_pylist() == [1, 3]
    assert len(scores.tokens[scores.groups[3].rows]) == 0
    assert scores.record["credit"].to_pylist()[3:] == [[0, 0], [0], [0], [], []]
    assert scores.record["credit"].to_pylist()[0][0] > 0.4


def test_text_is_tokenized_and_given_tokens_are_not():
    texts = ["so 4", "no 5", "so 4!", ""]
    columns = {"group": ["g"] * 4, "reward": [1.0, 0, 1, 0], "correct": [1.0, 0, 1, 0]}
    ids = [[ord(letter) for letter in text] for text in texts]
    from_text = score(pa.table(columns | {"response": texts}), letters())
    from_ids = score(pa.table(columns | {"response": ["?"] * 4, "token_ids": ids}), letters())
    some = pa.table(columns | {"response": texts, "token_ids": [ids[0], None, ids[2], None]})
    for scores in (from_ids, score(some, letters())):
        assert scores.record["token_ids"].to_pylist() == ids
        assert scores.record["credit"].equals(from_text.record["credit"])
        assert scores.tokens.equals(from_text.tokens)
    assert "".join(from_text.tokens["token"].to_pylist()) == " !45nos"
    with pytest.raises(InputError, match="2 of 4 rollouts have no token_ids; a tokenizer"):
        score(some)


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
    scores = score(rollouts)
    supporting, opposing = strongest(scores.tokens)
    assert [token.token_id for token in supporting] == [1, 3]
    assert [token.token_id for token in opposing] == [2]
    first = supporting[0]
    assert (first.a, first.n_true, first.b, first.n_false, first.groups) == (3, 4, 0, 4, 2)
    credit_g, credit_h = (credit[0] for credit in scores.record["credit"].to_pylist()[0:5:4])
    assert first.impact == pytest.approx(credit_g * 1.0 + credit_h * 0.5)
    assert first.credit == pytest.approx((credit_g * 1.0 + credit_h * 0.5) / 1.5)
    assert first.p_value == pytest.approx(1 / 6)  # Σa ≥ 3, or as improbable: (1/6 · 1/2) · 2
    in_h = strongest(scores.tokens[scores.groups[1].rows], top=1)
    assert [(t.token_id, t.groups, t.token) for t in in_h.supporting] == [(1, 1, None)]
    assert strongest(scores.tokens[scores.groups[2].rows]) == ([], [])


def distinct_counts(tokens):
    return [tokens[f"distinct_{x}"].to_pylist() for x in "abcd"]


def test_p_counts_identical_rollouts_once():
    """Token 1 is in three of four correct rollouts and in none of three incorrect ones. With each
    rollout there twice, p is still that of seven. Where one is there once more, with another
    verdict, p is that of the other six, in whichever order."""
    ids = [[1], [1, 1], [1, 2], [2], [3], [3, 2], [2, 2]]
    rewards = [1.0] * 4 + [0.0] * 3

    def p_values(ids, rewards):
        columns = {"group": ["g"] * len(ids), "token_ids": ids, "reward": rewards}
        tokens = score(pa.table(columns | {"correct": rewards})).tokens
        p = {token.token_id: token.p_value for side in strongest(tokens) for token in side}
        return p, distinct_counts(tokens)

    expected, counts = p_values(ids, rewards)
    assert expected[1] == pytest.approx(scipy.stats.fisher_exact([[3, 0], [1, 3]])[1])
    assert counts[0] == [3, 2, 0] and counts[1] == [0, 2, 2]
    twice, counts_of_twice = p_values([*ids, *ids], [*rewards, *rewards])
    assert twice == pytest.approx({i: expected[i] for i in twice}) and counts_of_twice == counts
    six, counts = p_values(ids[1:], rewards[1:])
    again = [*ids, *ids, ids[0]], [*rewards, *rewards, 0.0]
    for columns in (again, [column[::-1] for column in again]):
        p, counts_of_others = p_values(*columns)
        assert p == pytest.approx({i: six.get(i, p[i]) for i in p}) and counts_of_others == counts


def test_written_tables_are_the_same_and_both_or_none(tmp_path, monkeypatch):
    """No two of these rollouts are identical, so p of the file's strongest is the same as well."""
    scores = score(random_rollouts())
    out, tokens_out = tmp_path / "s.parquet", tmp_path / "s.tokens.parquet"
    write(scores, out, tokens_out)
    assert record.read_record(out).equals(scores.record)
    assert strongest(pq.read_table(tokens_out)) == strongest(scores.tokens)
    before, write_table = (out.read_bytes(), tokens_out.read_bytes()), pq.write_table

    def fail_on_the_second(table, path, **options):
        if "token_id" in table.column_names:
            raise OSError("disk full")
        write_table(table, path, **options)

    monkeypatch.setattr(pq, "write_table", fail_on_the_second)
    with pytest.raises(InputError, match="disk full"):
        write(score(random_rollouts(seed=1)), out, tokens_out)
    assert (out.read_bytes(), tokens_out.read_bytes()) == before
    assert len(list(tmp_path.iterdir())) == 2
