"""Two rollouts of each tool, right and wrong, in the shape that its source or documentation gives.

@ is the response, and # is 1 or 0: whether it is right. A text without @ is one row of both.
"""

import json
from typing import Any

USER = '{"role": "user", "content": "2 + 2?"}'
CHAT = f"""[{USER}, {{"role": "assistant", "content": "@"}}]"""
SLIME = {
    **{"group_index": 3, "index": 25, "prompt": [json.loads(USER)], "tokens": [9, 8, 7, 4, 5]},
    **{"response": "@", "response_length": 2, "label": "4", "reward": 1, "loss_mask": None},
    **{"status": "completed", "metadata": {}},
}
LM_EVAL = {
    **{"doc_id": 3, "doc": {"question": "2 + 2?", "answer": "#### 4"}, "target": "#### 4"},
    "arguments": {"gen_args_0": {"arg_0": "Question: 2 + 2?", "arg_1": {"until": []}}},
    **{"resps": [["so 4"]], "filtered_resps": ["4"], "filter": "strict-match"},
    **{"metrics": ["exact_match"], "exact_match": 1.0, "doc_hash": "x"},
}
NODES = f"""[
    {{"parent": null, "message": {USER}, "sampled": false, "token_ids": [1], "mask": [false]}},
    {{"parent": 0, "message": {{"role": "assistant", "content": "@"}}, "sampled": true,
    "token_ids": [3, #], "mask": [false, true], "advantages": [0.5]}},
    {{"parent": 1, "message": {{"role": "tool", "content": "4"}}, "token_ids": [5],
    "mask": [false]}},
    {{"parent": 2, "message": {{"role": "assistant", "content": "so @"}}, "sampled": true,
    "token_ids": [6], "mask": [true], "advantages": [0.5]}}]"""
TASK = '{"type": "Sum", "data": {"idx": 7, "prompt": "2 + 2?", "answer": 0}, "key": "k7"}'
TOOLS = {
    "OpenRLHF's outputs o.jsonl": """
        {"input": "2 + 2?", "output": "@", "reward": #.0, "label": "4", "datasource": "sums"}""",
    "slime's samples rollout_12.jsonl": json.dumps(
        SLIME | {"loss_mask": [1, 0], "reward": {"acc": 0, "score": "#"}}
    ).replace('"#"', "#"),
    "NeMo-RL's training data train_data_step2.jsonl": """
        {"rewards": [#], "input_lengths": [5], "token_ids": [[11, 12, 13, 4, 5, 0]],
        "token_loss_mask": [[0, 0, 0, 1, 1, 0]], "sample_loss_mask": [1.0], "idx": #,
        "advantages": [[0.5, 0.5, 0.5, 0.5, 0.5, 0.5]], "content": ["2 + 2?", "@"],
        "generation_logprobs": [[-0.5, -0.5, -0.5, -0.5, -0.5, -0.5]]}""",
    "verifiers' traces traces.jsonl": f"""
        {{"id": "e", "env": {{"id": "sums"}}, "task": {TASK},
        "run": {{"type": "train", "work": {{"type": "train", "step": 5}}}},
        "traces": [{{"id": "t", "task": {TASK}, "nodes": {NODES}, "agent": {{"name": "agent"}},
        "rewards": {{"right": {{"score": #, "weight": 0.5}}, "x": {{"score": #, "weight": 0.5}},
        "form": null}}}},
        {{"agent": {{"name": "judge", "trainable": false}}, "nodes": [], "rewards": {{}}}}]}}""",
    # As prime-rl wrote them before episodes.
    "verifiers' traces step_6/train_rollouts.jsonl": f"""
        {{"id": "t", "task": {{"idx": 7, "prompt": "2 + 2?", "answer": "4"}},
        "agent": {{"name": "agent"}}, "info": {{"prime_rl": {{"env_name": "sums"}}}},
        "nodes": {NODES}, "calls": [{{"model": "qwen"}}], "rewards": {{"right": #.0}}}}""",
    "the results of verifiers or prime-rl step_4/train_rollouts.jsonl": f"""
        {{"example_id": 3, "task": "sums", "prompt": [{USER}], "answer": "4", "reward": #.0,
        "completion": [{{"role": "assistant", "content": "@"}}],
        "trajectory": [{{"tokens": {{"completion_ids": [4, 5], "completion_mask": [1, 0]}}}}]}}""",
    "lighteval's details details_gsm8k.jsonl": """
        {"doc": {"query": "2 + 2?", "choices": ["4"], "gold_index": 0, "id": "3", "task_name":
        "lighteval|gsm8k|0"}, "model_response": {"text": ["@"], "output_tokens": [[4, 5]]},
        "metric": {"extractive_match": #.0}}""",
    "the outputs of the KTAE authors a.jsonl": """
        {"task_name": "aime", "gt": ["7", "7"], "model_output": ["4", "5"], "reward": [1, 0]}""",
    "samples of lm-evaluation-harness samples_gsm8k_2025-01-02T03-04-05.6.jsonl": json.dumps(
        LM_EVAL | {"resps": [["@"]], "exact_match": "#", "doc_id": "#"}
    )
    .replace("#### 4", "so 4")
    .replace('"#"', "#"),
    "ART's trajectories r.jsonl": f"""
        {{"trajectories": [{{"reward": #.0, "metrics": {{}}, "messages": [{USER},
        {{"index": 0, "message": {{"role": "assistant", "content": "@"}}}}]}}]}}""",
    "ART's trajectories rows.jsonl": f"""
        {{"group_index": 3, "reward": #.0, "metrics": "{{}}", "messages": [{USER},
        {{"role": "assistant", "content": "@", "tool_calls": null, "trainable": true}}]}}""",
    "rLLM's trajectories r.jsonl": f"""{{"chat_completions": {CHAT}, "reward": #.0}}""",
    "rLLM's trajectories of steps r.jsonl": f"""
        {{"task": {{"q": 1}}, "reward": #.0, "steps": [{{"chat_completions": [], "reward": 0}},
        {{"chat_completions": {CHAT}}}]}}""",
    "rLLM's trajectories of steps e.jsonl": f"""
        {{"task": {{"q": 1}}, "trajectories": [{{"name": "solver", "reward": #.0, "steps": [
        {{"chat_completions": {CHAT}}}]}}]}}""",
    "OpenHands' outputs r.jsonl": """
        {"instance_id": "i", "instruction": "2 + 2?", "report": {"resolved": #}, "history": [
        {"source": "user", "action": "message", "args": {"content": "2 + 2?"}},
        {"source": "agent", "action": "finish", "args": {"final_thought": "@"}}]}""",
    "SkyRL's outputs r.jsonl": """
        {"input_prompt": "2 + 2?", "output_response": "@", "stop_reason": "stop",
        "score": [0.0, 0.0, #.0], "env_class": "m", "env_extras": {}, "data_source": "sums"}""",
    "NeMo Gym's rollouts r.jsonl": f"""
        {{"responses_create_params": {{"input": [{USER}]}}, "reward": #.0, "response":
        {{"model": "m", "output": [{{"type": "message", "role": "assistant",
        "content": [{{"text": "@"}}]}}]}}}}""",
    "NeMo-Skills' outputs r.jsonl": """
        {"problem": "2 + 2?", "generation": "@", "expected_answer": "4",
        "predicted_answer": "4", "symbolic_correct": #}""",
    "Qwen2.5-Math's outputs r.jsonl": """
        {"idx": 0, "question": "2 + 2?", "gt": "4", "gt_cot": "", "pred": ["4", "5"],
        "code": ["4", "5"], "report": [null, null], "score": [true, false]}""",
    "Prime Intellect's export r.jsonl": """
        {"problem_id": 3, "sample_id": #, "env_name": "e", "reward": #.0, "step": 4,
        "prompt": "2 + 2?", "completion": "[{\\"role\\": \\"assistant\\", \\"content\\": \\"@\\"}]",
        "advantage": 0.5, "answer": "4", "num_output_tokens": 7}""",
    "tau-bench's results r.jsonl": f"""
        {{"task_id": 1, "traj": [{USER}, {{"role": "assistant", "content": "@"}},
        {{"role": "tool", "content": "TOLD"}}], "reward": #.0, "trial": 0}}""",
    "Atropos's groups r.jsonl": """
        {"tokens": [[1, 7], [1, 8]], "masks": [[-100, 7], [-100, 8]], "scores": [1.0, -1.0]}""",
    "ROLL's rollout dump r.jsonl": """
        {"global_step": [3, 3], "prompt": ["2 + 2?", "2 + 2?"], "scores": [1.0, 0.0],
        "responses": ["4", "5"], "ground_truth": ["4", "4"], "tag": ["a", "b"]}""",
    "inspect's log r.jsonl": f"""
        {{"id": 1, "epoch": #, "input": "2 + 2?", "target": "4", "messages": {CHAT},
        "scores": {{"match": {{"value": "#"}}}}}}""",
    "reasoning-gym's results r.jsonl": """
        {"results": [{"question": "2 + 2?", "expected_answer": "4", "completions": [
        {"full_model_response": "4", "score": 1.0},
        {"full_model_response": "5", "score": 0.01}]}]}""",
}
"""By how it is called and what its file is called."""


def rows(tool: str) -> list[dict[str, Any]]:
    text = TOOLS[tool]
    both = [
        json.loads(text.replace("@", answer).replace("#", right))
        for answer, right in (("4", "1"), ("5", "0"))
    ]
    return both if "@" in text else both[:1]
