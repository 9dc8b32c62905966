"""Losses and gradients of every architecture beside transformers, from the checkpoint's own config.json and weights: in f32, with and
without documents that are packed into one window.

usage: model_test.py BIN   (the folder of model-losses)
"""

import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import call

try:
    import numpy
    import torch
    import transformers
except ImportError:
    print("skipped: this Python has no transformers to compare with")
    sys.exit(77)

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
CONTEXT, WINDOWS, END = 40, 3, 256
SIZES = f"layers: 3, dim: 48, heads: 4, vocab: 300, context: {CONTEXT}"
torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()


def windows(ends):
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(0, END, (WINDOWS, CONTEXT + 1), generator=generator)
    # Documents of several lengths, one of an end alone, and a window without any.
    for window, place in ((0, 7), (0, 8), (0, 30), (1, 0), (1, CONTEXT - 1)) if ends else ():
        ids[window, place] = END
    return ids


def mask_of(ids, ends):
    """What a token sees, as transformers takes it: 0 where it does, and the least number where it does not."""
    seen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril().expand(WINDOWS, 1, CONTEXT, CONTEXT)
    if ends:
        document = torch.zeros(WINDOWS, CONTEXT, dtype=torch.long)
        document[:, 1:] = ids[:, : CONTEXT - 1].eq(END).cumsum(1)
        seen = seen & document.unsqueeze(2).eq(document.unsqueeze(1)).unsqueeze(1)
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


class Models(unittest.TestCase):
    def check(self, written, **expected):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-model-"))
        self.addCleanup(shutil.rmtree, folder, True)
        manifest = folder / "run.yaml"
        manifest.write_text(f"version: 1\nrun: x\nmodel: {{{SIZES}, {written}}}\n")
        call(BIN / "model-losses", "write", manifest, folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for name, value in expected.items():
            self.assertEqual(getattr(model.config, name), value, name)
        order = (folder / "order").read_text().split()
        parameters = dict(model.named_parameters())
        self.assertEqual(set(order), set(parameters), "what is bound is what transformers trains")
        # Large values, and biases that are none: of an untrained model much is too small to be told from nothing.
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in parameters.values():
                parameter.add_(torch.randn_like(parameter) * 0.15)
        model.save_pretrained(folder / "other")
        for ends in (False, True):
            with self.subTest(written, ends=ends):
                ids = windows(ends)
                (folder / "windows").write_bytes(ids.numpy().astype(numpy.uint32).tobytes())
                out = call(BIN / "model-losses", "read", manifest, folder / "other", folder / "windows", END if ends else -1, folder / "gradient")
                ours = torch.from_numpy(numpy.fromfile(folder / "gradient", dtype=numpy.float32))
                model.zero_grad()
                logits = model(ids[:, :-1], attention_mask=mask_of(ids, ends), use_cache=False).logits
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                loss.backward()
                self.assertAlmostEqual(float(out), loss.item(), delta=1e-5)
                begin = 0
                for name in order:
                    theirs = parameters[name].grad.reshape(-1)
                    mine = ours[begin:begin + len(theirs)]
                    begin += len(theirs)
                    self.assertLess((mine - theirs).abs().max().item(), 1e-5, name)
                    self.assertGreater(theirs.abs().max().item(), 1e-4, name)
                self.assertEqual(begin, len(ours))

    def test_a_llama(self):
        self.check("kv_heads: 2", model_type="llama", tie_word_embeddings=False)
        self.check("tie_embeddings: true, rope_theta: 500, norm_epsilon: 1e-3", tie_word_embeddings=True)

    def test_a_llama_with_biases_of_attention(self):
        self.check("kv_heads: 2, attention_bias: true", model_type="llama", attention_bias=True)

    def test_a_llama_of_scaled_rotations(self):
        self.check("rope_scaling: {kind: linear, factor: 3.5}, rope_theta: 500",
                   rope_parameters={"rope_type": "linear", "factor": 3.5, "rope_theta": 500.0})
        # Of the six pairs of a head some keep their frequency, some lose a part of it and some all that there is to lose.
        self.check("attention_bias: true, rope_theta: 500, "
                   "rope_scaling: {kind: llama3, factor: 8, low_freq_factor: 1.5, high_freq_factor: 6, original_context: 100}",
                   rope_parameters={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 6.0,
                                    "original_max_position_embeddings": 100, "rope_theta": 500.0})

    def test_a_gpt2(self):
        self.check("arch: gpt2", model_type="gpt2", tie_word_embeddings=True, n_inner=192)
        self.check("arch: gpt2, ffn: 100, tie_embeddings: false, norm_epsilon: 1e-3", tie_word_embeddings=False, n_inner=100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
