"""The ways in which tools write rollouts, and which of them a row is written in.

Most are data: the fields that tell a row, and the paths of a rollout's fields in it. A few have a
function for what paths cannot say (`trainers`, `verifiers`, `evaluation`).
"""

from __future__ import annotations

from ktae.rollouts.paths import at
from ktae.rollouts.schemas import evaluation, trainers, verifiers
from ktae.rollouts.schemas.base import Schema
from ktae.rollouts.values import KINDS, Row

PLAIN = Schema(
    "plain rollouts",
    "group:any",
    also=lambda row: "token_ids" in row or KINDS["said"](row.get("response")),
)
"""A row with a group and a response is what it says, whatever fields stand beside them. So is what
no other schema fits, whose fields the whole file tells (`ktae.rollouts.plain`)."""
BY_FIELDS = Schema("rows whose fields were named", "")
SCHEMAS = (
    Schema(
        "Prime Intellect's export",
        "problem_id:label sample_id:label env_name:text prompt:said completion:said reward:number?",
        "group=env_name/problem_id response=completion source=env_name",
    ),
    Schema(
        "TRL's logged completions",
        "step:label prompt:said completion:said",
        "response=completion answer=answer|solution|ground_truth advantage=advantage|advantages",
        trainers.trl_rows,
        also=lambda row: any(
            x in row and KINDS["number?"](row[x]) for x in ("advantage", "advantages")
        ),
        chooses=True,
        once=trainers.new_steps,
        run=r"(completions|c)_\d+\..*",
    ),
    Schema(
        "verl's rollout dump",
        "step:number? input:text output:text score:score",
        "prompt=input response=output answer=gts reward=score",
        trainers.verl_rows,
        chooses=True,
        drops="gts",
        once=trainers.last_outputs,
        run=r"\d+\.jsonl.*",
    ),
    Schema(
        "slime's samples",
        "tokens:any response_length:number prompt:said response:any",
        "group=group_index step=rollout_id|@name answer=label",
        trainers.slime_rows,
        chooses=True,
        drops="tokens response_length loss_mask label group_index rollout_id",
        run=r"(.*_)?\d+\.pt(\.gz)?",
    ),
    Schema(
        "NeMo-RL's training data",
        "rewards:any idx:number",
        "step=@name",
        trainers.nemo_rl_rows,
        also=lambda row: not {"content", "token_loss_mask"}.isdisjoint(row),
        drops="content rewards filtered_rewards idx token_ids token_loss_mask input_lengths "
        "advantages generation_logprobs prev_logprobs",
        run=r"train_data_step\d+\.jsonl.*",
    ),
    verifiers.TRACES,
    Schema(
        "the results of verifiers or prime-rl",
        "completion:said reward:number?",
        "group=task/example_id response=completion step=step|@name "
        "token_ids=trajectory[0].tokens.completion_ids mask=trajectory[0].tokens.completion_mask",
        prepare=verifiers.of_one_turn,
        also=verifiers.has_example,
        run=verifiers.RUN,
    ),
    Schema(
        "samples of lm-evaluation-harness",
        "doc_id:label resps:list doc:any",
        "answer=target",
        evaluation.lm_eval_rows,
        chooses=True,
        drops="doc_id doc target arguments resps filtered_resps",
    ),
    Schema(
        "lighteval's details",
        "doc:dict model_response:dict metric:dict",
        convert=evaluation.lighteval_rows,
        chooses=True,
    ),
    Schema(
        "inspect's log",
        "messages:messages scores:dict epoch:number input:said",
        convert=evaluation.inspect_rows,
        chooses=True,
    ),
    Schema(
        "the outputs of the KTAE authors",
        "model_output:any",
        convert=evaluation.authors_rows,
        also=lambda row: (
            "task_name" in row
            if isinstance(row["model_output"], str)
            else isinstance(row["model_output"], list) and "gt" in row
        ),
    ),
    Schema(
        "ROLL's rollout dump",
        "prompt:said responses:text scores:score global_step:number",
        "response=responses group=id reward=scores answer=ground_truth step=global_step",
        run=r"rollout_dump_data\.step_\d+\.jsonl",
    ),
    Schema(
        "Atropos's groups",
        "tokens:list masks:list scores:score",
        "token_ids=tokens mask=masks reward=scores",
        trainers.atropos_rows,
        drops="messages advantages inference_logprobs",
    ),
    Schema(
        "NeMo Gym's rollouts",
        "responses_create_params:dict response:dict reward:score",
        "response=response.output prompt=responses_create_params.input model=response.model "
        "group=_ng_task_index answer=expected_answer|answer",
    ),
    Schema(
        "SkyRL's outputs",
        "input_prompt:text output_response:text score:any",
        "prompt=input_prompt response=output_response reward=score "
        "answer=env_extras.reward_spec.ground_truth benchmark=data_source",
        prepare=evaluation.summed,
    ),
    Schema(
        "NeMo-Skills' outputs",
        "generation:said problem:text",
        "response=generation prompt=problem answer=expected_answer "
        "reward=symbolic_correct|is_correct|reward",
        also=lambda row: any(
            name in row
            for name in ("expected_answer", "symbolic_correct", "is_correct", "predicted_answer")
        ),
        run=r"output-rs\d+\.jsonl",  # its seeds
    ),
    Schema(
        "Qwen2.5-Math's outputs",
        "question:text code:texts score:scores gt:any",
        "prompt=question group=idx answer=gt",
        evaluation.qwen_rows,
        drops="code score",
    ),
    Schema(
        "reasoning-gym's results",
        "question:text score:score full_model_response:text",
        "prompt=question response=full_model_response reward=score answer=expected_answer",
    ),
    Schema(
        "tau-bench's results",
        "task_id:label traj:messages reward:number",
        "response=traj group!=task_id _task=info.task.instruction",
    ),
    Schema(
        "OpenRLHF's outputs",
        "input:said output:text reward:score",
        "group=group prompt=input response=output answer=label",
    ),
    Schema(
        "ART's trajectories",
        "messages_and_choices:messages reward:number",
        "response=messages_and_choices group!=group_index",
    ),
    Schema(
        "ART's trajectories",
        "messages:messages reward:number",
        "response=messages group!=group_index",
        also=lambda row: not {"group_index", "metrics"}.isdisjoint(row),
    ),
    Schema(
        "rLLM's trajectories",
        "chat_completions:messages reward:score",
        "response=chat_completions",
    ),
    Schema(
        "rLLM's trajectories of steps",
        "steps:list reward:score",
        "response=steps[-1].chat_completions group=task",  # a step repeats the ones before it
        also=lambda row: KINDS["messages"](at(row, "steps[-1].chat_completions")),
        drops="steps",
        run=r".*\.json",
    ),
    Schema(
        "OpenHands' outputs",
        "instance_id:label history:messages",
        "response=history group!=instance_id prompt=instruction "
        "reward=report.resolved|test_result.report.resolved|test_result.resolved|resolved",
    ),
)
"""In the order in which they are tried."""


def detect(row: Row, likely: Schema | None = None) -> Schema:
    """The schema of a row; `likely` is that of the row before."""
    first = (PLAIN,) if likely is None else (PLAIN, likely)
    return next((schema for schema in (*first, *SCHEMAS) if schema.detects(row)), PLAIN)


def is_of_tool(row: Row) -> bool:
    """Whether an object is a row of a known tool."""
    return any(schema.detects(row) for schema in SCHEMAS)
