"""GPT-2 at batches whose logits have more elements than 32 bits count, planned over doubles of the libraries of CUDA. It
ended in an illegal memory access."""

import os
import shutil
import unittest

import support

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = shutil.which(support.RUNTIME) or support.RUNTIME
DOUBLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(PROGRAM))), "tests", "doubles", "launches")


@unittest.skipUnless(os.path.isdir(DOUBLES), "the build has no plugin cuda, so it has no double of it")
class LargeBatch(support.Situation):

    def test_it_is_planned(self):
        for batch in (41, 42, 64, 96):
            words = [word for setting in ("device.backend=cuda", "device.tune=off", "training.mixed_precision=bf16",
                                          f"training.global_batch_size={batch}") for word in ("--set", setting)]
            text = self.runtime("plan", os.path.join(ROOT, "tools", "gpu", "gpt2.toml"), *words,
                                environment={"RUNTIME_PLUGIN_PATH": DOUBLES})
            self.assertIn("prediction:", text)
            self.assertNotIn("is slow", text)


if __name__ == "__main__":
    support.main()
