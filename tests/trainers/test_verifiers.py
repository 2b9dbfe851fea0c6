"""Token credit on verifiers' own traces, in their file, and in prime-rl's own algorithms."""

import asyncio
import gzip
import importlib.util
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from extras import installed
from placement import UNIT, assert_placed, by_id, reference

from ktae.errors import InputError
from ktae.trainers.lists import Settings
from ktae.trainers.traces import write_advantages
from ktae.trainers.verifiers import add_credit, use_in_prime_rl, with_credit

needs_verifiers = pytest.mark.skipif(
    not installed("verifiers"), reason="needs verifiers: make test-trainers"
)
needs_prime_rl = pytest.mark.skipif(
    not (installed("verifiers") and importlib.util.find_spec("prime_rl")),
    reason="needs prime-rl, which is in no index: a checkout on PYTHONPATH",
)


def node(ids, parent=None, *, written=False, scaffold=0):
    """A message; the policy wrote its tokens but for the first few, which are the template's."""
    from verifiers import v1 as vf

    kind = vf.AssistantMessage if written else vf.UserMessage
    mask = [False] * scaffold + [written] * (len(ids) - scaffold)
    return vf.MessageNode(
        parent=parent,
        message=kind(content="text"),
        sampled=written,
        token_ids=ids,
        mask=mask,
        logprobs=[-0.5] * sum(mask),
    )


def forked(start):
    """Two branches that share the prompt and the first answer."""
    return [
        node([1, 2]),
        node([3, start, start + 1], 0, written=True, scaffold=1),
        node([4, 5], 1),
        node([6, start + 2], 2, written=True, scaffold=1),
        node([7], 1),
        node([start + 3, start + 4], 4, written=True),
    ]


def trace(nodes, reward, *, name="agent", metrics=None, right=None):
    from verifiers import v1 as vf

    rewards = {"format": vf.Reward(score=reward, weight=2.0)}
    if right is not None:
        rewards["right"] = vf.Reward(score=right, weight=0.0)
    return vf.Trace(
        task=vf.TraceTask(type="Task", data=vf.TaskData(idx=0, prompt="?"), key="t"),
        agent=vf.AgentInfo(config=vf.AgentConfig(), name=name),
        nodes=nodes,
        rewards=rewards,
        metrics=metrics or {},
        ok=True,
    )


def episode(*traces, group="g"):
    from verifiers import v1 as vf

    return vf.Episode(
        env=vf.EnvInfo(id="sums", name="sums"),
        task=traces[0].task,
        group=vf.GroupInfo(id=group),
        ok=True,
        traces=list(traces),
    )


def four():
    """A group of four traces, the first and the last with two branches."""
    plain = [[node([1, 2]), node([3, s, s + 1], 0, written=True, scaffold=1)] for s in (40, 60)]
    nodes = [forked(20), *plain, forked(80)]
    return [trace(own, reward) for own, reward in zip(nodes, [1.0, 0.0, 1.0, 0.0], strict=True)]


@needs_verifiers
def test_the_credit_of_a_token_is_at_that_token_in_every_branch():
    traces = four()
    for one in traces:
        for own in one.nodes:
            own.advantages = [0.25] * sum(own.mask)
    add_credit(traces, Settings(by_id))
    for one in traces:
        for branch in one.branches:
            assert_placed(branch.token_ids, branch.sampled_mask, branch.advantages, 0.25)


@needs_verifiers
def test_a_trace_is_one_rollout_in_the_order_of_its_nodes():
    traces = four()
    found = add_credit(traces, Settings("paper"))
    ids = [[20, 21, 22, 23, 24], [40, 41], [60, 61], [80, 81, 82, 83, 84]]
    for row, other in zip(found.lists, reference(ids, [1, 0, 1, 0], [0] * 4), strict=True):
        assert row == pytest.approx(other, abs=1e-6)
    assert traces[0].nodes[0].advantages is None  # nothing was sampled there
    if installed("torch"):  # the metrics need it
        assert all(trace.metrics["credit/correct"] == 0.5 for trace in traces)


@needs_verifiers
def test_other_agents_are_compared_apart():
    solvers = four()
    both = [*four(), trace([node([40], written=True)], 0.0, name="proposer")]
    alone, beside = add_credit(solvers, Settings()), add_credit(both, Settings())
    assert beside.lists[:4] == alone.lists
    assert beside.lists[4] == [0.0]


@needs_verifiers
def test_correctness_is_a_reward_or_a_metric():
    """The weighted sum says the opposite."""
    for where in ("right", "exact"):
        pair = [
            trace([node([20 + i], written=True)], reward, right=right, metrics={"exact": right})
            for i, (reward, right) in enumerate([(0.0, 1.0), (1.0, 0.0)])
        ]
        found = add_credit(pair, Settings(correctness=where))
        assert found.lists[0][0] > 0 > found.lists[1][0]
    with pytest.raises(InputError, match=r"correctness is 'wrong'; expected .* 'right'"):
        add_credit(pair, Settings(correctness="wrong"))


@needs_verifiers
def test_the_file_that_verifiers_writes_and_reads(tmp_path):
    """Two episodes of one group, another group, and a trace that ended with an error."""
    from verifiers import v1 as vf

    store = pytest.importorskip(
        "verifiers.v1.utils.trace_store", reason="this verifiers is older than its trace store"
    )
    traces = four()
    lost = trace(forked(100), 1.0)
    lost.ok = False
    other = trace([node([20], written=True)], 1.0)
    for one in (episode(*traces[:2]), episode(*traces[2:], lost), episode(other, group="h")):
        store.write_episode(tmp_path, one)
    (tmp_path / "new").mkdir()
    new = tmp_path / "new" / "traces.jsonl"
    assert write_advantages(tmp_path / "traces.jsonl", new, credit=by_id) == 5
    read = [
        one for found in store.read_episodes(tmp_path / "new", vf.WireTrace) for one in found.traces
    ]
    for one, advantage in zip(read[:4], [1.0, -1.0, 1.0, -1.0], strict=True):
        for branch in one.branches:
            assert_placed(branch.token_ids, branch.sampled_mask, branch.advantages, advantage)
    assert all(own.advantages is None for own in read[4].nodes)
    assert read[5].nodes[0].advantages == pytest.approx([20 * UNIT], abs=1e-6)
    before = [json.loads(line) for line in (tmp_path / "traces.jsonl").read_text().splitlines()]
    after = [json.loads(line) for line in new.read_text().splitlines()]
    for row in after:
        for one in row["traces"]:
            for own in one["nodes"]:
                own.pop("advantages", None)
    assert after == before


def written(tmp_path, *rows):
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def advantages_in(path):
    return [json.loads(line)["nodes"][0]["advantages"] for line in path.read_text().splitlines()]


def bare(ids, reward, right, group="g"):
    """A row of one trace, as prime-rl wrote it: no verifiers needed."""
    nodes = [{"message": {"content": "x"}, "token_ids": ids, "mask": [True] * len(ids)}]
    rewards = {"shaped": {"score": reward}, "right": {"score": right, "weight": 0.0}}
    return {"task": {"id": group}, "nodes": nodes, "rewards": rewards}


def test_a_file_is_written_without_verifiers(tmp_path):
    """The credit goes by the verdict, the rollout advantage by the reward."""
    rows = [bare([5, 6], 0.0, 1.0), bare([5, 7], 0.5, 0.0), bare([6, 7], 1.0, 1.0, "h")]
    path = written(tmp_path, *rows)
    assert write_advantages(path, path, credit="paper", correctness="right") == 3
    credit = reference([[5, 6], [5, 7], [6, 7]], [1, 0, 1], [0, 0, 1])
    expected = np.add(credit, [[-0.25], [0.25], [0.0]])
    assert np.array(advantages_in(path)) == pytest.approx(expected, abs=1e-6)


def test_an_episode_that_lacks_an_agent_stays_in_its_group(tmp_path):
    """The critic failed in the last two episodes; the solvers are compared as if it had not."""

    def by(name, ids, score):
        return bare(ids, score, score) | {"agent": {"name": name}, "task": {"key": "t"}}

    def solvers_of(*episodes):
        rows = [{"task": {"key": "t"}, "traces": list(traces)} for traces in episodes]
        path = written(tmp_path, *rows)
        write_advantages(path, path, credit="paper")
        read = [json.loads(line)["traces"][0] for line in path.read_text().splitlines()]
        return [solver["nodes"][0]["advantages"] for solver in read]

    solvers = [by("solver", [5, 6 + i % 2], float(i == 1)) for i in range(4)]
    critics = [by("critic", [8 + i % 2], float(i % 2)) for i in range(4)]
    together = solvers_of(*zip(solvers, critics, strict=True))
    lacking = solvers_of(*zip(solvers[:2], critics, strict=False), solvers[2:3], solvers[3:])
    assert lacking == together and np.ptp(together[0]) > 0.1


def test_steps_are_not_one_group(tmp_path):
    """The same task in two training steps; prime-rl has a folder for each."""
    rows = [bare([5, 6], 1.0, 1.0), bare([5, 7], 0.0, 0.0)]
    for i, row in enumerate(rows):
        row["run"] = {"work": {"step": i}}
    path = written(tmp_path, *rows)
    write_advantages(path, path)
    assert advantages_in(path) == [[0.0, 0.0], [0.0, 0.0]]


def test_a_file_of_something_else_is_refused(tmp_path):
    path = written(tmp_path, bare([5], 1.0, 1.0), {"prompt": "?"})
    with pytest.raises(InputError, match=r"line 2.*expected an episode or a trace"):
        write_advantages(path, tmp_path / "new.jsonl")
    short = bare([5, 6], 1.0, 1.0)
    short["nodes"][0]["mask"] = [True]
    with pytest.raises(InputError, match="part 0 has 2 tokens and a mask of 1"):
        write_advantages(written(tmp_path, short), tmp_path / "new.jsonl")


def test_advantages_of_another_scale_and_infinite_rewards_are_refused(tmp_path):
    path = written(tmp_path, bare([5], 1.0, 1.0), bare([6], 0.0, 0.0))
    with pytest.raises(InputError, match=r"the rollout advantages are R - mean; expected scale_by"):
        write_advantages(path, tmp_path / "new.jsonl", credit="conflict-tokens")
    raw = {"estimator": "conflict-tokens", "scale_by_std": False}
    assert write_advantages(path, tmp_path / "new.jsonl", credit=raw) == 2
    path = written(tmp_path, bare([5], math.inf, math.inf), bare([6], 0.0, 0.0))
    with pytest.raises(InputError, match=r"line 1.* reward is (inf|nan); expected a finite number"):
        write_advantages(path, tmp_path / "new.jsonl")


def test_a_compressed_file_stays_compressed_and_other_formats_are_refused(tmp_path):
    plain = written(tmp_path, bare([5, 6], 1.0, 1.0), bare([5, 7], 0.0, 0.0))
    path = tmp_path / "traces.jsonl.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    assert write_advantages(path, path) == 2
    write_advantages(plain, plain)
    assert gzip.decompress(path.read_bytes()) == plain.read_bytes()
    with pytest.raises(InputError, match=r"traces\.parquet; expected a name that ends in \.jsonl"):
        write_advantages(plain, tmp_path / "traces.parquet")


def test_a_reward_that_nobody_gave_is_unknown(tmp_path):
    rows = [bare([5, 6], 1.0, 1.0), bare([5, 7], 0.0, 0.0)]
    for row in rows:
        row["rewards"]["judge"] = None
    path = written(tmp_path, *rows)
    assert write_advantages(path, path, correctness="judge") == 2
    assert advantages_in(path) == [[0.5, 0.5], [-0.5, -0.5]]


def test_a_group_without_any_verdict_gets_no_credit():
    """prime-rl scores one group at a time; stand-ins, so that it runs everywhere."""

    def unknown(ids):
        own = SimpleNamespace(token_ids=ids, mask=[True] * len(ids), advantages=[0.5] * len(ids))
        metrics = {}
        return SimpleNamespace(
            nodes=[own], metrics=metrics, rewards={"right": None}, reward=0.0,
            agent=SimpleNamespace(name="agent"), record_metrics=metrics.update,
        )  # fmt: skip

    pytest.importorskip("torch", reason="metrics are computed with torch")
    traces = [unknown([5, 6]), unknown([5, 7])]
    add_credit(traces, Settings(correctness="right"))
    assert [one.nodes[0].advantages for one in traces] == [[0.5, 0.5]] * 2
    assert traces[0].metrics["credit/unknown"] == 1.0


def scored(algorithm_class, config, episodes):
    algorithm = algorithm_class(config, None)
    asyncio.run(algorithm.finalize_group(episodes))


@needs_prime_rl
def test_prime_rls_own_samples_have_the_credit_at_its_token():
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator.algo import GRPOAlgorithm
    from prime_rl.orchestrator.trajectories import trace_to_samples
    from verifiers import v1 as vf

    if not hasattr(vf.Branch, "multi_modal_data"):
        pytest.skip("this verifiers is not the one that the checkout of prime-rl has in deps/")
    traces = four()
    episodes = [episode(one) for one in traces]
    scored(with_credit(GRPOAlgorithm, credit=by_id), GRPOAlgoConfig(), episodes)
    for one, advantage in zip(traces, [1.0, -1.0, 1.0, -1.0], strict=True):
        samples = trace_to_samples(one)
        own = set()
        for sample in samples:
            values = [
                a * trained for a, trained in zip(sample.advantages, sample.mask, strict=True)
            ]
            assert_placed(sample.token_ids, sample.mask, values, advantage)
            trained = {x for x, m in zip(sample.token_ids, sample.mask, strict=True) if m}
            assert not own & trained  # a shared node is trained in one branch alone
            own |= trained
        assert own == {x for n in one.nodes for x, m in zip(n.token_ids, n.mask, strict=True) if m}


@needs_prime_rl
def test_prime_rl_builds_the_algorithm_that_was_put_in(monkeypatch):
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator import algo

    own = dict(algo.ALGORITHM_CLASSES)
    monkeypatch.setattr(algo, "ALGORITHM_CLASSES", algo.ALGORITHM_CLASSES)
    try:
        use_in_prime_rl(credit="calibrated", correctness="right")
        built = algo.build_algorithm(GRPOAlgoConfig(), None)
    finally:
        algo.ALGORITHM_CLASSES.update(own)
    assert type(built).__name__ == "TokenCreditGRPOAlgorithm"
    with pytest.raises(InputError, match=r"algorithm is 'hierarchical_grpo'.*'max_rl'"):
        use_in_prime_rl("hierarchical_grpo")


@needs_prime_rl
def test_decaying_credit_knows_the_step():
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator.algo import GRPOAlgorithm
    from verifiers import v1 as vf

    half = {"estimator": "paper", "transforms": [{"decayed": 10}]}
    plain, decayed = four(), four()
    for traces, credit in ((plain, "paper"), (decayed, half)):
        episodes = [episode(one) for one in traces]
        for one in episodes:
            one.record_run(vf.TrainRunInfo(id="r", work=vf.TrainWorkInfo(step=5)))
        scored(with_credit(GRPOAlgorithm, credit=credit), GRPOAlgoConfig(), episodes)
    values = [np.array(traces[0].nodes[1].advantages) - 1 for traces in (plain, decayed)]
    assert values[1] == pytest.approx(values[0] / 2, abs=1e-6)
    assert values[0].max() > 0.1
