"""Agent loops with several outputs a session, through the step of verl's own trainer that calls
`compute_advantage_for_multi_trajectories`. Only TransferQueue's storage is a dictionary here."""

import numpy as np
import oracle
import pytest
from extras import installed

if not installed("verl"):
    pytest.skip("needs the extra 'verl'", allow_module_level=True)

import torch

import ktae
from ktae.errors import InputError
from ktae.estimators import from_section
from ktae.trainers.verl.handover import sessions_of

pytestmark = pytest.mark.usefixtures("verl")

PROMPTS, SESSIONS, WIDTH = 5, 6, 10


def rows_of(outputs, seed=0):
    """Rows as verl's `AgentLoopWorkerTQ` puts them, in the order that balancing may leave them in.

    Args:
        outputs: how many the sessions have, at most.
    """
    rng = np.random.default_rng(seed)
    rows = {}
    for prompt in range(PROMPTS):
        for session in range(SESSIONS):
            acc = float(rng.random() < 0.5)
            for output in range(rng.integers(1, outputs + 1)):
                length = int(rng.integers(2, WIDTH + 1))
                mask = (np.arange(length) != length // 2).astype(np.int64)  # as of a tool's text
                reward = torch.zeros(length)
                reward[-1] = acc  # verl copies the last output's to those before it
                rows[f"p_{prompt}_{session}_{output}"] = {
                    "uid": f"p_{prompt}",
                    "prompts": torch.from_numpy(rng.integers(1, 3, int(rng.integers(1, 3)))),
                    "responses": torch.from_numpy(rng.integers(1, 9, length)),
                    "response_mask": torch.from_numpy(mask),
                    "rm_scores": reward,
                    "extra_fields": {"reward_extra_info": {"acc": acc}},
                }
    keys = [list(rows)[i] for i in rng.permutation(len(rows))]
    return {key: rows[key] for key in keys}


@pytest.fixture
def advantages_of(monkeypatch):
    """A function from rows, and an estimator's name, to the advantages that verl's trainer puts
    into TransferQueue, by key; and the step's metrics."""
    import transfer_queue
    from omegaconf import OmegaConf
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    def compute(rows, name, *, padding=(), **credit):
        put = {}

        def get(keys, partition_id, select_fields):
            names = [name for name in select_fields if name in rows[keys[0]]]
            return list_of_dict_to_tensordict([{n: rows[key][n] for n in names} for key in keys])

        def keep(keys, partition_id, fields):
            put.update(zip(keys, fields["advantages"].unbind(), strict=True))

        monkeypatch.setattr(transfer_queue, "kv_batch_get", get)
        monkeypatch.setattr(transfer_queue, "kv_batch_put", keep)
        mode = "ktae_sync" if name == "ktae" else "sync"
        trainer = object.__new__(get_trainer_cls(mode))
        algorithm = {"use_kl_in_reward": False, "gamma": 1.0, "lam": 1.0, "credit": credit}
        trainer.config = OmegaConf.create(
            {
                "algorithm": algorithm | {"adv_estimator": name},
                "actor_rollout_ref": {"rollout": {"n": SESSIONS}},
                "trainer": {"logger": "console"},
            }
        )
        trainer.global_steps = 1
        metrics = {}
        tags = [{"is_padding": True} if key in padding else {} for key in rows]
        batch = transfer_queue.KVBatchMeta(list(rows), tags, "train")
        trainer._compute_advantage(batch, metrics)
        width = max(len(row) for row in put.values())
        return {key: padded(row, width) for key, row in put.items()}, metrics

    return compute


def padded(row, width):
    return torch.nn.functional.pad(row, (0, width - len(row))).numpy()


def is_last(key, rows):
    session, _, output = key.rpartition("_")
    return f"{session}_{int(output) + 1}" not in rows


def core_credit(rows, compute=oracle.token_credit, **options):
    """By key, from the core's reference: a session's outputs are one rollout, and what the later
    ones were asked stands between them."""
    sessions = {}
    for key in sorted(rows):
        sessions.setdefault(key.rpartition("_")[0], []).append(key)
    n, width = len(sessions), 4 * WIDTH
    ids, mask, place = np.zeros((3, n, width), dtype=np.int64)
    for i, keys in enumerate(sessions.values()):
        at = 0
        for number, key in enumerate(keys):
            prompt, row = rows[key]["prompts"] if number else [], rows[key]
            ids[i, at : at + len(prompt)] = prompt
            at += len(prompt)
            ids[i, at : at + len(row["responses"])] = row["responses"]
            mask[i, at : at + len(row["responses"])] = row["response_mask"]
            place[i, at : at + len(row["responses"])] = number + 1
            at += len(row["responses"])
    acc = [rows[keys[-1]]["extra_fields"]["reward_extra_info"]["acc"] for keys in sessions.values()]
    uid = np.array([rows[keys[-1]]["uid"] for keys in sessions.values()])
    credit = compute(ids, mask, np.array(acc), uid, **options)
    by_key = {}
    for i, keys in enumerate(sessions.values()):
        for number, key in enumerate(keys):
            of_output = credit[i][place[i] == number + 1]
            by_key[key] = np.pad(of_output, (0, WIDTH - len(of_output)))
    return by_key


@pytest.mark.parametrize(
    "section",
    [
        {"estimator": "paper"},
        {"estimator": "paper", "transforms": [{"over-units": ["turn", "state-turn"]}]},
    ],
    ids=str,
)
def test_a_session_is_one_rollout_and_its_outputs_are_turns(advantages_of, section):
    rows = rows_of(outputs=3)
    last = {key: row for key, row in rows.items() if is_last(key, rows)}
    assert len(last) == PROMPTS * SESSIONS < len(rows)
    wanted = core_credit(rows, credit=from_section(section))
    used, metrics = advantages_of(rows, "ktae", **section)
    by_verl, _ = advantages_of(rows, "grpo")  # its own treatment of such sessions
    for key in rows:
        credit = wanted[key][: len(used[key])]
        np.testing.assert_allclose(used[key], by_verl[key] + credit, atol=1e-5)
    assert max(np.abs(wanted[key]).max() for key in rows if key not in last) > 0.05
    assert max(np.abs(by_verl[key]).max() for key in rows if key not in last) > 0.5
    share = 1 - len(last) / len(rows)
    assert metrics["credit/intermediate_outputs"] == pytest.approx(share)
    acc = [row["extra_fields"]["reward_extra_info"]["acc"] for row in last.values()]
    assert metrics["credit/correct"] == pytest.approx(np.mean(acc))


@pytest.mark.parametrize("outputs", [1, 3])
def test_padding_rows_count_in_no_metric(advantages_of, outputs):
    """verl copies the first row, with its verdict, and masks the copy throughout."""
    rows = rows_of(outputs)
    first = next(iter(rows.values()))
    zero = {"response_mask": torch.zeros(1, dtype=torch.int64), "rm_scores": torch.zeros(1)}
    copied = first | zero | {"uid": "pad", "responses": torch.zeros(1, dtype=torch.int64)}
    padding = {f"pad_{i}_0": copied for i in range(18)}
    used, metrics = advantages_of(rows | padding, "ktae", padding=padding)
    alone, wanted = advantages_of(rows, "ktae")
    del metrics["credit/seconds"], wanted["credit/seconds"]
    assert metrics == pytest.approx(wanted)
    for key in rows:
        np.testing.assert_array_equal(used[key], alone[key])
    assert not any(used[key].any() for key in padding)


def test_a_session_whose_last_output_counts_nowhere_gets_nothing(advantages_of):
    """As with verl's GRPO: its rollout advantage is of the last output, which is masked."""
    rows = rows_of(outputs=3)
    [key, *_] = [key for key in rows if is_last(key, rows) and not key.endswith("_0")]
    session = key.rpartition("_")[0]
    rows[key]["response_mask"] = 0 * rows[key]["response_mask"]
    used, _ = advantages_of(rows, "ktae")
    assert not any(row.any() for name, row in used.items() if name.startswith(f"{session}_"))
    assert any(row.any() for row in used.values())


@pytest.mark.parametrize("outputs", [1, 3])
def test_rewards_of_turns_come_with_the_agent_loops_extra_fields(advantages_of, outputs):
    """Each row's mask has a hole, so it has two turns or one; a session has those of its rows."""
    rows = rows_of(outputs)
    rng = np.random.default_rng(0)
    for row in rows.values():
        n = int((np.diff(np.pad(row["response_mask"].numpy(), 1)) == 1).sum())
        row["extra_fields"]["turn_rewards"] = rng.normal(size=n).round(2).tolist()
    sessions = {}
    for key in sorted(rows):
        rewards = rows[key]["extra_fields"]["turn_rewards"]
        sessions.setdefault(key.rpartition("_")[0], []).extend(rewards)
    used, _ = advantages_of(rows, "ktae", estimator="turn-rewards")
    by_verl, _ = advantages_of(rows, "grpo")
    wanted = core_credit(
        rows, compute=ktae.token_credit, credit="turn-rewards", turn_rewards=[*sessions.values()]
    )
    for key in rows:
        credit = wanted[key][: len(used[key])]
        np.testing.assert_allclose(used[key], by_verl[key] + credit, atol=1e-5)
    assert max(np.abs(credit).max() for credit in wanted.values()) > 0.5
    for row in rows.values():
        del row["extra_fields"]["turn_rewards"]
    with pytest.raises(InputError) as error:
        advantages_of(rows, "ktae", estimator="turn-rewards")
    assert "turn_rewards" in str(error.value)


def test_correctness_names_another_result_of_the_reward_function(advantages_of):
    rows = rows_of(outputs=1)
    renamed = {key: row | {"extra_fields": {"reward_extra_info": {}}} for key, row in rows.items()}
    for key, row in rows.items():
        acc = row["extra_fields"]["reward_extra_info"]["acc"]
        renamed[key]["extra_fields"]["reward_extra_info"] |= {"acc": 1 - acc, "solved": acc}
    wanted, _ = advantages_of(rows, "ktae")
    used, _ = advantages_of(renamed, "ktae", correctness="solved")
    for key in rows:
        np.testing.assert_array_equal(used[key], wanted[key])
    with pytest.raises(InputError) as error:
        advantages_of(renamed, "ktae", correctness="solvd")
    assert "'solvd'" in str(error.value) and "'solved'" in str(error.value)


def test_the_outputs_of_a_session_are_in_their_order():
    keys = ["p_0_0_2", "p_0_1_0", "p_0_0_10", "p_0_0_0", "p_0_0_1"]
    assert sessions_of(keys) == [[3, 4, 0, 2], [1]]
