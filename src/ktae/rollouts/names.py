"""What fields are called in rows of any tool: names that say what a field is, and likely ones."""

from __future__ import annotations

RESPONSES = (
    *("response", "completion", "generation", "generated_text", "model_output", "model_response"),
    *("output", "output_text", "responses", "completions", "generations", "outputs", "choices"),
)
"""A field of such a name that holds text or messages is the response, if it is the only one."""
PROMPTS = tuple(
    f"{name}{s}"
    for s in ("", "s")
    for name in ("prompt", "instruction", "problem", "question", "query", "input")
)
"""What a prompt may be called, alone or as one value for each of a row's responses."""
QUESTIONS = ("problem", "question", "problems", "questions", "query", "queries", "input")
"""Fields that hold a problem where `prompt` is a template or a system's message."""
TURNS = (
    *("messages", "steps", "turns", "trajectory", "traj", "conversation", "conversations"),
    *("history", "nodes", "events", "transcript", "triplets", "transitions"),
)
"""Names of lists whose entries are turns of one rollout."""
CONVERSATIONS = ("messages", "conversation", "conversations", "chat", "dialogue")
"""Where the whole conversation of a rollout may stand."""
REASONING = ("reasoning_content", "reasoning", "thinking", "thoughts", "reasoning_text")
"""What the policy thought, beside its response."""
REWARDS = ("reward", "score", "rewards", "scores")
VERDICTS = (
    *("correct", "is_correct", "result", "passed", "success", "resolved", "verdict", "is_right"),
    *("correctness", "is_solved", "results", "acc", "accuracy", "exact_match"),
)
"""A field of such a name that holds verdicts says what is correct."""
ANSWERS = (
    *("answer", "ground_truth", "expected_answer", "reference_answer", "gold_answer", "gold"),
    *("gt", "reference", "answers", "gts", "ground_truths", "solution"),
)
"""A reference answer; a field `answer` may be the model's own, which differs within a group."""
LABELS = (
    *("group", "group_id", "prompt_id", "problem_id", "question_id", "task_id", "example_id"),
    *("custom_id", "instance_id", "qid", "query_id", "doc_id", "unique_id", "key", "uid", "id"),
    *("idx", "index"),
)
"""What tells a problem, where it repeats."""
CRITERIA = ("criteria", "criterion", "dimensions", "aspects", "rubric", "rubrics", "categories")
"""What the entries of a list of scores are about, if they are no rollouts."""
EVALUATIONS = ("eval", "evaluation", "val", "valid", "validation", "test", "dev", "heldout")
"""Values of `split` that are not training."""
SPLITS = ("split", "phase", "mode", "subset", "partition")
EPISODES = ("episode", "episode_id", "traj_id", "trajectory_id", "rollout_id", "session_id")
"""Fields that tell an episode whose turns stand in rows of their own."""
TURN_NUMBERS = ("step", "turn", "turn_id", "step_id", "turn_index", "step_index", "t")
CONDITIONS = (*SPLITS, *TURN_NUMBERS, "iteration", "stage")
"""Rollouts that differ in these are seldom meant to be compared."""
OUTCOMES = (
    *("epoch", "episode", "traj", "rollout", "session"),
    *("pred", "extract", "answer", "finish", "stop", "reason", "length", "token", "time", "score"),
    *("reward", "correct", "status", "error", "valid", "format", "seed", "sample", "trial", "rank"),
    *(
        "result",
        "acc",
        "pass",
        "success",
        "attempt",
        "date",
        "cost",
        "usage",
        "latency",
        "response",
    ),
    *("output", "outcome", "verdict", "grade", "judge", "advantage", "logprob", "metric", "turns"),
)
"""Parts of the names of fields that come of a rollout, or number it."""
TABLES = (
    *("outputs", "results", "samples", "rows", "data", "records", "rollouts", "responses"),
    *("completions", "generations", "predictions", "instances", "entries", "items", "examples"),
    *("evaluations", "simulations", "trajectories", "episodes", "runs", "questions", "problems"),
    *("tasks", "eval", "details", "attempts", "tries", "candidates", "logs"),
)
"""Fields of a container that hold its rows."""
LIKELY = {
    name: names.split()
    for name, names in {
        "response": f"""response completion output model_output generation generated_text generated
            model_response full_model_response output_response prediction predict solution_str
            rollout sample code text content solution ys output_list out tokens raw
            {" ".join(TURNS)}""",
        "group": """group group_id prompt_id problem_id question_id task_id example_id group_index
            group_idx prompt_index problem_idx qid doc_id unique_id custom_id key problem prompt
            question query input instruction idx id pid""",
        "reward": """reward correct is_correct correctness acc accuracy score exact_match pass
            passed success is_right is_ok ok verdict symbolic_correct is_solved graded_list resolved
            overall_score total_reward valid result status""",
        "answer": """answer expected_answer gold_answer gt gts gold ground_truth reference
            reference_answer target solution label""",
        "prompt": "prompt problem question query instruction input task",
    }.items()
}
"""Names that a field may have, in the singular, the likeliest first."""
