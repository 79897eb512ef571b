"""Triton with one model of its Python backend. The model is a sleep; the server, its queue and its batches are real.

Arguments: PORT FOLDER BASE_MS EACH_MS BATCH DELAY_MS. A batch of b requests takes BASE_MS + EACH_MS * b. The folder gets
the model repository, with this file as its model.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import sys
import sysconfig
import time

NAME = "sleeper"
CONFIG = """
name: "%s"
backend: "python"
max_batch_size: %d
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
dynamic_batching { max_queue_delay_microseconds: %d }
parameters { key: "base_ms" value { string_value: "%s" } }
parameters { key: "each_ms" value { string_value: "%s" } }
"""


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.base, self.each = (
            float(parameters[key]["string_value"]) / 1e3 for key in ("base_ms", "each_ms")
        )

    def execute(self, requests):
        import triton_python_backend_utils as backend

        rows = [backend.get_input_tensor_by_name(one, "x").as_numpy() for one in requests]
        time.sleep(self.base + self.each * sum(map(len, rows)))
        sums = (one.sum(axis=1, keepdims=True) for one in rows)
        return [backend.InferenceResponse([backend.Tensor("y", one)]) for one in sums]


def main(port, folder, base, each, batch, delay):
    version = pathlib.Path(folder, "models", NAME, "1")
    version.mkdir(parents=True, exist_ok=True)
    # The backend's process ignores PYTHONPATH.
    packages = pathlib.Path(importlib.util.find_spec("pytriton").origin).parent.parent
    own = pathlib.Path(__file__).read_text()
    first = f"import sys\nsys.path.insert(0, {str(packages)!r})\n"
    (version / "model.py").write_text(first + own)
    config = CONFIG % (NAME, int(batch), int(float(delay) * 1e3), base, each)
    (version.parent / "config.pbtxt").write_text(config)
    # A backend is found in a folder with its program, which the package keeps elsewhere, one for each Python.
    server = packages / "pytriton" / "tritonserver"
    backend = pathlib.Path(folder, "backends", "python")
    shutil.copytree(server / "backends" / "python", backend, dirs_exist_ok=True)
    python = "%d.%d" % sys.version_info[:2]
    stub = server / "python_backend_stubs" / python / "triton_python_backend_stub"
    shutil.copy(stub, backend)
    libraries = [packages / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
    program = server / "bin" / "tritonserver"
    arguments = {
        "model-repository": version.parent.parent,
        "backend-directory": backend.parent,
        "cache-directory": server / "caches",
        "http-address": "127.0.0.1",
        "http-port": port,
        "allow-grpc": "false",
        "allow-metrics": "false",
    }
    os.execv(program, [program] + [f"--{key}={value}" for key, value in arguments.items()])


if __name__ == "__main__":
    main(*sys.argv[1:])
