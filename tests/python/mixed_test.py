"""A run of prime-trainer and of a PyTorch script that train the same Llama: the model of transformers, by its own names."""

import os
import unittest

from programs import BIN, PYTHON, Run, Trainers, environment, has, main

LLAMA = """import os, signal, sys
import torch, transformers
import prime_runtime as prime
torch.set_num_threads(1)
torch.manual_seed(5)
CONTEXT = 16
config = transformers.LlamaConfig(vocab_size=256, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                  max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False)
model = transformers.LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
text = torch.frombuffer(bytearray(open(os.environ["TEXT"], "rb").read()), dtype=torch.uint8).long()
with prime.join() as run:
    run.share(model)
    run.bind(model, optimizer)
    for step in run:
        died = os.environ["DONE"] + "-died"
        if step.outer_step == 3 and step.index == 1 and not os.path.exists(died):
            open(died, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        windows = torch.stack([text[at % (len(text) - CONTEXT - 1):][:CONTEXT] for at in (number * 97 for number in step.samples)])
        optimizer.zero_grad()
        loss = model(input_ids=windows, labels=windows).loss
        loss.backward()
        optimizer.step()
        step.report(loss, windows.numel())
    torch.save(model.state_dict(), os.environ["DONE"] + "-model")
"""


@unittest.skipUnless(has("torch", "transformers", "safetensors"), "there are no wheels torch, transformers and safetensors")
@unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer")
class Mixed(Trainers):
    def test_both_have_the_same_layout_and_the_same_digests_also_when_the_script_is_killed(self):
        text = self.folder / "text.txt"
        text.write_text("".join(f"{number} bottles of beer on the wall, take one down and pass it around.\n" for number in range(2000)))
        program = self.folder / "llama.py"
        program.write_text(LLAMA)
        model = "{arch: llama, layers: 2, dim: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 256, context: 16}"
        flags = ["--quorum", "2", "--set", f"data.path={text}", "--set", f"model={model}", "--set", "train.evaluate.every=0"]
        env = {key: value for key, value in environment(DONE=str(self.folder / "done"), TEXT=str(text)).items() if key not in os.environ}
        # The script is started again, and loads torch and transformers: how long that takes is the machine's affair.
        patient = {"deadline": "1h", "wait_limit": "1h", "stall_limit": "1h"}
        with Run(1, outer_steps=6, minimum=2, trainer=BIN / "prime-trainer", up_flags=flags, **patient, env={**env, "OMP_NUM_THREADS": "1"}) as run:
            joined = run.join(flags=["--set", f'local.trainer_command=["{PYTHON}", "{program}"]'])
            self.assertEqual(run.wait_for_end(), 0, run.trainer_logs())
            joined.wait(600)
            commits = run.check(outer_steps=6)
            self.assertEqual({len(commit["contributors"]) for commit in commits}, {2})
            self.assertIn("died", self.done_names(), "it was killed once")
            self.assertLess(commits[-1]["loss"], commits[0]["loss"])
            saved = run.events("final_state_saved")[-1]["checkpoint"]
            said = self.one(f"""
import torch
from safetensors.torch import load_file
ours, theirs = torch.load({str(self.folder / 'done-model')!r}), load_file({saved + '/model.safetensors'!r})
print(sorted(ours) == sorted(theirs), all(torch.equal(ours[name], theirs[name]) for name in ours))
""")
            self.assertEqual(said, "True True\n")

    def done_names(self):
        return {path.name.removeprefix("done-") for path in self.folder.glob("done-*")}


if __name__ == "__main__":
    main()
