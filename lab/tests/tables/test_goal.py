"""What the goal's table says of comparisons by hand."""

from comparing import one, use

from ktae_lab.tables import goal
from ktae_lab.tables.goal import Clause


def test_a_clause_holds_by_interval_and_test(monkeypatch):
    verdicts = {
        "good": ([0.1, 0.3], "yes"),
        "above": ([0.01, 0.3], "yes, not after correction"),
        "unsure": ([0.01, 0.3], "open"),
        "around": ([-0.1, 0.1], "open"),
        "below": ([-0.3, -0.1], "no"),
        "shown_below": ([-0.3, -0.1], "no"),
        "none": (None, "not known"),
    }
    unsure, not_corrected = {"unsure": {"p_value": 0.2}}, {"above": {"corrected": 0.2}}
    others = unsure | not_corrected | {"below": {"corrected": 0.2}}
    small = [one(n, interval, **others.get(n, {})) for n, (interval, _) in verdicts.items()]
    use(monkeypatch, small=small)
    clauses = [Clause(name, name, "grpo", "last_60") for name in verdicts]
    no_effect = {"around": "not refuted", "unsure": "not refuted", "above": "an effect"}
    clauses += [Clause(n, n, "grpo", "last_60", "no effect") for n in no_effect]
    margins = {
        ("no effect", "around", 0.2): "yes, none beyond 0.2",
        ("no effect", "around", 0.1): "not refuted",
        ("no effect", "above", 0.2): "an effect, not shown to be beyond 0.2",
        ("no effect", "above", 0.31): "yes, none beyond 0.31",
        ("no effect", "below", 0.05): "an effect beyond 0.05",
        ("at least", "around", 0.2): "yes, not less by 0.2",
        ("at least", "around", 0.1): "open",
        ("at least", "good", 0.2): "yes, more",
        ("at least", "below", 0.2): "open",
        ("at least", "below", 0.1): "no",
        ("at least", "shown_below", 0.4): "yes, not less by 0.4",
        ("at least", "below", 0.4): "yes, not less by 0.4",
    }
    clauses += [Clause(n, n, "grpo", "last_60", w, m) for w, n, m in margins]
    monkeypatch.setattr(goal, "GOALS", {"small": clauses})
    rows = goal.goal("small").splitlines()[2:]
    expected = [verdict for _, verdict in verdicts.values()]
    expected += [*no_effect.values(), *margins.values()]
    assert [row.split(": ")[-1].strip("| ") for row in rows] == [
        verdict if verdict != "not known" else "none | not known" for verdict in expected
    ]
    assert rows[0] == "| good | +0.200 (+0.100 to +0.300), p 0.01, Holm 0.04: yes |"
