# SPDX-License-Identifier: MIT
"""Two layers of a network from a safetensors file, computed by weir and by NumPy."""

import os
import tempfile

import numpy as np
import weir

random = np.random.default_rng(1)
path = os.path.join(tempfile.mkdtemp(), "mlp.safetensors")
weir.save({
    "norm": np.ones(64, np.float32),
    "up": random.standard_normal((256, 64), np.float32) / 8,
    "down": random.standard_normal((64, 256), np.float32) / 16,
}, path)

w = weir.load(path, framework="numpy")
g = weir.Graph()
x = g.input("x", (4, 64))
h = g.mul(g.rms_norm(x, eps=1e-6), g.leaf(w["norm"]))
h = g.silu(g.mul_mat(g.leaf(w["up"]), h))            # h times up transposed
y = g.add(x, g.mul_mat(g.leaf(w["down"]), h, precision="f32"))
plan = g.compile(y, framework="numpy")

for _ in range(3):
    a = random.standard_normal((4, 64), np.float32)
    b = a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-6) * w["norm"]
    b = b @ w["up"].T
    b = a + b / (1 + np.exp(-b)) @ w["down"].T
    print("largest difference:", np.abs(plan.run(x=a) - b).max())
    assert np.allclose(plan.run(x=a), b, atol=1e-2)
print(plan.info()["bytes"], "bytes of memory besides the weights")
