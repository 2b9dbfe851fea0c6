"""Token credit on verifiers' own traces, in their file, and in prime-rl's own algorithms."""

import asyncio
import types

import pytest
from extras import installed
from placement import UNIT, assert_placed, by_id

from ktae.trainers.settings import Settings
from ktae.trainers.verifiers import add_credit, with_credit

if not installed("verifiers"):
    pytest.skip("needs verifiers: make test-trainers", allow_module_level=True)

from verifiers import v1 as vf


def verifiers_node(ids, parent=None, *, written=False, scaffold=0):
    """A message; the policy wrote its tokens but for the first few, which are the template's."""
    mask = [False] * scaffold + [written] * (len(ids) - scaffold)
    kind = vf.AssistantMessage if written else vf.UserMessage
    return vf.MessageNode(
        parent=parent,
        message=kind(content="text"),
        sampled=written,
        token_ids=ids,
        mask=mask,
        logprobs=[-0.5] * sum(mask),
    )


def verifiers_trace(nodes, reward, *, name="agent"):
    return vf.Trace(
        task=vf.TraceTask(type="Task", data=vf.TaskData(idx=0, prompt="?"), key="t"),
        agent=vf.AgentInfo(config=vf.AgentConfig(), name=name),
        nodes=nodes,
        rewards={"format": vf.Reward(score=reward, weight=2.0)},
        metrics={},
        info={},
        ok=True,
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


def test_the_credit_of_a_token_is_at_that_token_in_every_branch():
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


def test_a_prime_rl_algorithm_has_the_credit_added():
    """prime-rl's package is in no index: a class with its method stands for its algorithm."""

    class Algorithm:
        async def score_group(self, episodes):
            for trace in (trace for episode in episodes for trace in episode.traces):
                for node in trace.nodes:
                    node.advantages = [trace.reward] * sum(node.mask) or None

    traces = four()
    episodes = [types.SimpleNamespace(traces=traces)]
    asyncio.run(with_credit(Algorithm, credit=by_id)().score_group(episodes))
    for trace in traces:
        for node in trace.nodes:
            written = [x for x, m in zip(node.token_ids, node.mask, strict=True) if m]
            assert (node.advantages or []) == [trace.reward + x * UNIT for x in written]
