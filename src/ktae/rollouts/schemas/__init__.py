"""The ways in which tools write rollouts, and which of them a row is written in.

Most are data: the fields that tell a row, and the paths of a rollout's fields in it. A few have a
function for what paths cannot say (`trainers`, `verifiers`, `evaluation`).
"""

from __future__ import annotations

from ktae.rollouts.rows import KINDS, Row
from ktae.rollouts.schemas import evaluation, trainers, verifiers
from ktae.rollouts.schemas.base import Schema
from ktae.rollouts.spread import by_fields, is_nested, spread, unfolded

PLAIN = Schema(
    "plain rollouts",
    "group:any",
    convert=lambda plain, row, where, source: [row],
    also=lambda row: "token_ids" in row or KINDS["said"](row.get("response")),
)
"""A row with a group and a response is what it says, whatever fields stand beside them. So is what
no other schema fits, which is told by its prompt."""
BY_FIELDS = Schema(
    "rows whose fields were named",
    "",
    convert=lambda plain, row, where, source: by_fields(row, source.options.fields, where),
)
NESTED = Schema(
    "rollouts nested in rows",
    "",
    convert=lambda plain, row, where, source: spread(
        unfolded(row, where, "group" in source.options.fields), where
    ),
    also=is_nested,
)
SCHEMAS = (
    Schema(
        "Prime Intellect's export",
        "problem_id:label sample_id:label env_name:text prompt:said completion:said reward:number?",
        "group=env_name/problem_id response=completion source=env_name",
    ),
    Schema(
        "TRL's logged completions",
        "step:label prompt:said completion:said advantage:number?",
        "group=#prompt response=completion answer=answer|solution|ground_truth",
        trainers.trl_rows,
        chooses=True,
        once=trainers.new_steps,
        run=r"(completions|c)_\d+\..*",
    ),
    Schema(
        "verl's rollout dump",
        "step:number? input:text output:text score:score",
        "group=#input prompt=input response=output answer=gts reward=score",
        trainers.verl_rows,
        chooses=True,
        drops="gts",
        once=trainers.last_outputs,
        run=r"\d+\.jsonl.*",
    ),
    Schema(
        "slime's samples",
        "tokens:any response_length:number prompt:said response:any",
        "group=group_index|#prompt step=rollout_id|@name answer=label",
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
        "example_id:label completion:said reward:number?",
        "group=task/example_id response=completion step=step|@name "
        "token_ids=trajectory[0].tokens.completion_ids mask=trajectory[0].tokens.completion_mask",
        prepare=verifiers.of_one_turn,
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
        "eval:dict samples[].messages:lists",
        convert=evaluation.inspect_rows,
        chooses=True,
    ),
    Schema(
        "inspect's samples",
        "messages:messages scores:dict epoch:number input:said",
        convert=evaluation.inspect_rows,
        chooses=True,
    ),
    Schema(
        "the outputs of the KTAE authors",
        "model_output:any",
        convert=evaluation.authors_rows,
        also=lambda row: (
            isinstance(row["model_output"], str | list) and not {"gt", "task_name"}.isdisjoint(row)
        ),
    ),
    Schema(
        "ROLL's rollout dump",
        "prompt:saids responses:texts scores:scores global_step:list",
        "response=responses[] prompt=prompt[] group=id[]|prompt[] reward=scores[] "
        "answer=ground_truth[] step=global_step[]",
        run=r"rollout_dump_data\.step_\d+\.jsonl",
    ),
    Schema(
        "Atropos's groups",
        "tokens:lists masks:lists scores:scores",
        "token_ids=tokens mask=masks reward=scores",
        trainers.atropos_rows,
        drops="messages advantages inference_logprobs",
    ),
    Schema(
        "NeMo Gym's rollouts",
        "responses_create_params:dict response:dict reward:score",
        "response=response.output prompt=responses_create_params.input model=response.model "
        "group=_ng_task_index|responses_create_params.input answer=expected_answer|answer",
    ),
    Schema(
        "SkyRL's outputs",
        "input_prompt:text output_response:text score:any",
        "group=#input_prompt prompt=input_prompt response=output_response reward=score "
        "answer=env_extras.reward_spec.ground_truth benchmark=data_source",
        prepare=evaluation.summed,
    ),
    Schema(
        "NeMo-Skills' outputs",
        "generation:said problem:text",
        "response=generation prompt=problem group=#problem answer=expected_answer "
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
        "response=code[] prompt=question group=idx|question reward=score[] answer=gt",
    ),
    Schema(
        "reasoning-gym's results",
        "results[].question:texts results[].completions[].score:lists "
        "results[].completions[].full_model_response:lists",
        "group=results[].question prompt=results[].question "
        "response=results[].completions[].full_model_response "
        "reward=results[].completions[].score answer=results[].expected_answer",
    ),
    Schema(
        "tau-bench's results",
        "task_id:label traj:messages reward:number",
        "response=traj group=task_id",
    ),
    Schema(
        "OpenRLHF's outputs",
        "input:said output:text reward:score",
        "group=group|#input prompt=input response=output answer=label",
    ),
    *(
        Schema(
            "ART's trajectories",
            f"trajectories[].{messages}:lists trajectories[].reward:scores",
            f"response=trajectories[].{messages} reward=trajectories[].reward",
        )
        for messages in ("messages", "messages_and_choices")
    ),
    Schema(
        "ART's trajectories as rows",
        "messages:messages reward:number",
        "response=messages group=group_index",
        also=lambda row: "group_index" in row or {"metrics", "metadata", "logs"} <= row.keys(),
    ),
    Schema(
        "rLLM's trajectories",
        "chat_completions:messages reward:score",
        "response=chat_completions",
    ),
    Schema(
        "rLLM's trajectories of steps",
        "steps[].chat_completions:lists reward:score",
        "response=steps[-1].chat_completions group=task",  # a step repeats the ones before it
        drops="steps",
    ),
    Schema(
        "rLLM's episodes",
        "trajectories[].steps[].chat_completions:lists trajectories[].reward:scores",
        "response=trajectories[].steps[-1].chat_completions reward=trajectories[].reward "
        "group=task",
        run=r".*\.json",
    ),
    Schema(
        "OpenHands' outputs",
        "instance_id:label history:messages",
        "response=history group=instance_id prompt=instruction "
        "reward=report.resolved|test_result.report.resolved|test_result.resolved|resolved",
    ),
)
"""In the order in which they are tried."""


def detect(row: Row, likely: Schema | None = None) -> Schema:
    """The schema of a row; `likely` is that of the row before."""
    first = (PLAIN,) if likely is None else (PLAIN, likely)
    return next((schema for schema in (*first, *SCHEMAS, NESTED) if schema.detects(row)), PLAIN)
