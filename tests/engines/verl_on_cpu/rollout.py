"""A rollout backend: `transformers.generate` in one Ray actor for each rank of the trainer."""

import asyncio
import os

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

GATHER_SECONDS = 0.05
"""How long a batch waits for company before it is generated."""


def _actor_name(replica_rank):
    return f"generate_server_{replica_rank}"


class ServerAdapter(BaseRollout):
    """In the training process: hands new weights to its server."""

    def __init__(self, config, model_config, device_mesh, **_):
        super().__init__(config, model_config, device_mesh)
        self.server = None

    async def release(self, *_):
        """There is no device memory to give back."""

    resume = release

    async def update_weights(self, weights, global_steps=None, **_):
        # Every rank goes through the generator: gathering a sharded weight takes all of them.
        state = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        if self.server is None:
            self.server = ray.get_actor(_actor_name(int(os.environ["RANK"])))
        await self.server.load_weights.remote(state, global_steps)


class GenerateReplica(RolloutReplica):
    async def launch_servers(self):
        server = (
            ray.remote(GenerateServer)
            .options(name=_actor_name(self.replica_rank), num_cpus=0, max_concurrency=1000)
            .remote(self.model_config.path, self.config.response_length, self.replica_rank)
        )
        await server.ready.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, f"generate://{self.replica_rank}"


class GenerateServer:
    """Gathers the requests of a moment into one batch."""

    def __init__(self, path, response_length, seed):
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.pad, self.eos = self.model.config.pad_token_id, self.model.config.eos_token_id
        self.response_length = response_length
        self.global_steps = None
        self.waiting = []
        self.lock = asyncio.Lock()

    async def ready(self):
        return True

    async def load_weights(self, state, global_steps):
        async with self.lock:
            missing, unexpected = self.model.load_state_dict(state, strict=False)
            tied = set(self.model.all_tied_weights_keys)
            assert not unexpected and set(missing) <= tied, (missing, unexpected)
            self.global_steps = global_steps

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((list(prompt_ids), sampling_params, answer))
        await asyncio.sleep(GATHER_SECONDS)
        async with self.lock:
            batch, self.waiting = self.waiting, []
            for temperature in {params["temperature"] for _, params, _ in batch}:
                alike = [item for item in batch if item[1]["temperature"] == temperature]
                outputs = await asyncio.to_thread(
                    self._generate, [prompt for prompt, _, _ in alike], temperature
                )
                for (_, _, future), output in zip(alike, outputs, strict=True):
                    future.set_result(output)
        return await answer

    @torch.no_grad()
    def _generate(self, prompts, temperature):
        width = max(map(len, prompts))
        ids = torch.tensor([[self.pad] * (width - len(p)) + p for p in prompts])
        lengths = torch.tensor([len(p) for p in prompts]).unsqueeze(1)
        mask = (torch.arange(width) >= width - lengths).long()
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0}
        out = self.model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=self.response_length,
            pad_token_id=self.pad,
            eos_token_id=self.eos,
            return_dict_in_generate=True,
            output_logits=True,
            **(sampling if temperature > 0 else {"do_sample": False}),
        )
        log_probs = torch.stack(out.logits, dim=1).log_softmax(dim=-1)
        return [
            self._output(row, log_prob)
            for row, log_prob in zip(out.sequences[:, width:], log_probs, strict=True)
        ]

    def _output(self, row, log_probs):
        ends = (row == self.eos).nonzero()
        ids = row[: int(ends[0]) + 1 if len(ends) else len(row)].tolist()
        return TokenOutput(
            token_ids=ids,
            log_probs=[float(log_probs[t, token]) for t, token in enumerate(ids)],
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def set_global_steps(self, global_steps):
        self.global_steps = global_steps

    async def _nothing(self, **_):
        """Nothing sleeps, is paused or cached; requests under way take less than a second."""

    wake_up = sleep = abort_all_requests = resume_generation = _nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing
