"""Token credit on verifiers' own traces, in their file, and in prime-rl's own algorithms."""

import asyncio
import importlib.util
from types import SimpleNamespace

import pytest
from engine_objects import needs, verifiers_node, verifiers_trace
from extras import installed
from placement import assert_placed, by_id

from ktae.errors import InputError
from ktae.trainers.settings import Settings
from ktae.trainers.verifiers import add_credit, use_in_prime_rl, with_credit

needs_prime_rl = pytest.mark.skipif(
    not (installed("verifiers") and importlib.util.find_spec("prime_rl")),
    reason="needs prime-rl, which is in no index: a checkout on PYTHONPATH",
)


def forked(start):
    """Two branches that share the prompt and the first answer."""
    node = verifiers_node
    return [
        node([1, 2]),
        node([3, start, start + 1], 0, written=True, scaffold=1),
        node([4, 5], 1),
        node([6, start + 2], 2, written=True, scaffold=1),
        node([7], 1),
        node([start + 3, start + 4], 4, written=True),
    ]


def four():
    """A group of four traces, the first and the last with two branches."""
    prompt = verifiers_node([1, 2])
    plain = [[prompt, verifiers_node([3, s, s + 1], 0, written=True, scaffold=1)] for s in (40, 60)]
    nodes = [forked(20), *plain, forked(80)]
    return [verifiers_trace(*pair) for pair in zip(nodes, [1.0, 0.0, 1.0, 0.0], strict=True)]


def episode(*traces, group="g"):
    from verifiers import v1 as vf

    return vf.Episode(
        env=vf.EnvInfo(id="sums", name="sums"),
        task=traces[0].task,
        group=vf.GroupInfo(id=group),
        ok=True,
        traces=list(traces),
    )


def test_the_credit_of_a_token_is_at_that_token_in_every_branch():
    needs("verifiers")
    traces = four()
    for trace in traces:
        for node in trace.nodes:
            node.advantages = [0.25] * sum(node.mask)
    add_credit(traces, Settings(by_id))
    for trace in traces:
        for branch in trace.branches:
            assert_placed(branch.token_ids, branch.sampled_mask, branch.advantages, 0.25)


def test_other_agents_are_compared_apart():
    other = verifiers_trace([verifiers_node([40], written=True)], 0.0, name="proposer")
    alone, beside = add_credit(four(), Settings()), add_credit([*four(), other], Settings())
    assert beside.parts == [*alone.parts, [[0.0]]]


def test_rewards_of_turns_are_in_the_traces_info():
    node = verifiers_node
    traces = []
    for start, rewards in ((20, [1.0, 0.0]), (40, [0.0, 4.0])):
        nodes = [node([1]), node([start, start + 1], 0, written=True), node([2], 1)]
        nodes.append(node([start + 2], 2, written=True))
        traces.append(verifiers_trace(nodes, 1.0, info={"turn_rewards": rewards}))
    add_credit(traces, Settings("turn-rewards"))
    written = [[n.advantages for n in trace.nodes[1::2]] for trace in traces]
    assert written == [[[-1.5, -1.5], [-2.0]], [[1.5, 1.5], [2.0]]]
    traces[0].info.clear()
    with pytest.raises(InputError):
        add_credit(traces, Settings("turn-rewards"))


def test_a_group_without_any_verdict_gets_no_credit():
    """prime-rl scores one group at a time; stand-ins, so that it runs everywhere."""

    def unknown(ids):
        own = SimpleNamespace(token_ids=ids, mask=[True] * len(ids), advantages=[0.5] * len(ids))
        metrics = {}
        return SimpleNamespace(
            nodes=[own], metrics=metrics, rewards={"right": None}, reward=0.0,
            agent=SimpleNamespace(name="agent"), record_metrics=metrics.update,
        )  # fmt: skip

    traces = [unknown([5, 6]), unknown([5, 7])]
    add_credit(traces, Settings(correctness="right"))
    assert [trace.nodes[0].advantages for trace in traces] == [[0.5, 0.5]] * 2
    assert traces[0].metrics["credit/unknown"] == 1.0


def scored(episodes, **options):
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator.algo import GRPOAlgorithm

    algorithm = with_credit(GRPOAlgorithm, **options)(GRPOAlgoConfig(), None)
    asyncio.run(algorithm.finalize_group(episodes))


@needs_prime_rl
def test_prime_rls_own_samples_have_the_credit_at_its_token():
    from prime_rl.orchestrator.trajectories import trace_to_samples
    from verifiers import v1 as vf

    if not hasattr(vf.Branch, "multi_modal_data"):
        pytest.skip("this verifiers is not the one that the checkout of prime-rl has in deps/")
    traces = four()
    scored([episode(trace) for trace in traces], credit=by_id)
    for trace, advantage in zip(traces, [1.0, -1.0, 1.0, -1.0], strict=True):
        trained = []
        for sample in trace_to_samples(trace):
            values = [a * m for a, m in zip(sample.advantages, sample.mask, strict=True)]
            assert_placed(sample.token_ids, sample.mask, values, advantage)
            trained += [x for x, m in zip(sample.token_ids, sample.mask, strict=True) if m]
        # Each once: a shared node is trained in one branch alone.
        pairs = [pair for n in trace.nodes for pair in zip(n.token_ids, n.mask, strict=True)]
        assert sorted(trained) == sorted(x for x, m in pairs if m)


@needs_prime_rl
def test_prime_rl_builds_the_algorithm_that_was_put_in(monkeypatch):
    from prime_rl.configs.algorithm import GRPOAlgoConfig
    from prime_rl.orchestrator import algo

    stock = algo.ALGORITHM_CLASSES["grpo"]
    monkeypatch.setitem(algo.ALGORITHM_CLASSES, "grpo", stock)  # put back at the end
    use_in_prime_rl(credit="calibrated", correctness="right")
    built = algo.build_algorithm(GRPOAlgoConfig(), None)
    assert type(built).__name__ == "TokenCreditGRPOAlgorithm" and isinstance(built, stock)
    with pytest.raises(InputError):
        use_in_prime_rl("hierarchical_grpo")
