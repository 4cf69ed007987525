"""GPT-2 at a batch whose logits have more elements than the kernels of a GPU count, planned over doubles of the
libraries of CUDA. It ended in an illegal memory access."""

import os
import shutil
import unittest

import support

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = shutil.which(support.RUNTIME) or support.RUNTIME
DOUBLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(PROGRAM))), "tests", "doubles", "launches")


@unittest.skipUnless(os.path.isdir(DOUBLES), "the build has no plugin cuda, so it has no double of it")
class LargeBatch(support.Situation):

    def plan(self, *settings, code=0):
        words = [word for setting in ("device.backend=cuda", "device.tune=off", "training.mixed_precision=bf16",
                                      "training.global_batch_size=64", *settings) for word in ("--set", setting)]
        return self.runtime("plan", os.path.join(ROOT, "tools", "gpu", "gpt2.toml"), *words, code=code,
                            environment={"RUNTIME_PLUGIN_PATH": DOUBLES})

    def test_what_does_not_fit_is_said_with_the_operand_and_the_remedy(self):
        text = self.plan(code=3)
        for words in ("this batch does not fit cuda:0", "layer 'lm_head'", "output 0 is bfloat16 [64, 1024, 50257]",
                      "3293642752 elements", "at most 2147483647", "a smaller training.micro_batch_size"):
            self.assertIn(words, text)

    def test_the_remedy_helps(self):
        self.assertIn("prediction:", self.plan("training.micro_batch_size=32"))

    def test_the_largest_micro_batch_that_is_counted_is_taken(self):
        self.plan("training.micro_batch_size=41")
        self.plan("training.micro_batch_size=42", code=3)


if __name__ == "__main__":
    support.main()
