"""prime_runtime.huggingface with the real Trainer of transformers: runs of two, one of which is killed."""

import unittest

from programs import Trainers, has, main

TRAINER = """import os, signal, sys
import torch, transformers
import prime_runtime as prime
from prime_runtime.huggingface import Callback
torch.set_num_threads(1)
torch.manual_seed(1)
config = transformers.LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=16)
model = transformers.LlamaForCausalLM(config)
class Counting(torch.utils.data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index):
        ids = (torch.arange(16) + index) % 64
        return {"input_ids": ids, "labels": ids}
class Dies(transformers.TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        rates.append((state.global_step, kwargs["lr_scheduler"].get_last_lr()[0]))
        if os.environ.get("DIES") and state.global_step == 9:
            try:
                open(os.environ["DONE"] + "-died", "x").close()
            except FileExistsError:
                return  # the other one has died
            os.kill(os.getpid(), signal.SIGKILL)
rates = []
args = transformers.TrainingArguments(output_dir=os.environ["DONE"] + "-" + str(os.getpid()), max_steps=24, per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=1e-2, use_cpu=True,
                                      report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, data_seed=os.getpid())
with prime.join() as run:
    trainer = transformers.Trainer(model=model, args=args, train_dataset=Counting(), callbacks=[Callback(run), Dies()])
    trainer.train()
    assert trainer.state.global_step in (23, 24), trainer.state.global_step
    for clock, rate in rates:
        assert abs(rate - 1e-2 * (1 - clock / 24)) < 1e-9, (clock, rate)
    open(os.environ["DONE"] + "-ended-" + run.peer, "w").write(f"{rates[0][0]}")
"""


@unittest.skipUnless(has("torch", "transformers", "accelerate"), "there are no wheels transformers and accelerate")
class HuggingFace(Trainers):
    def test_a_trainer_of_transformers_trains_with_others_and_goes_on_after_a_kill(self):
        for dies in ("", "1"):
            with self.subTest(dies), self.run_of(TRAINER, env={"DIES": dies}) as run:
                commits = self.ends(run)
                self.assertEqual({len(commit["contributors"]) for commit in commits}, {2})
                self.assertEqual({commit["weight"] for commit in commits}, {2 * 4 * 2 * 4 * 16})
                self.assertLess(commits[-1]["loss"], commits[0]["loss"])
                begun = sorted(map(int, self.ended(2)))
                self.assertEqual(begun, [0, 8] if dies else [0, 0])


if __name__ == "__main__":
    main()
