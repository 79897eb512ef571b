"""MLServer with one model. The model is a sleep; the server, its queue and its batches are real.

Arguments: PORT FOLDER BASE_MS EACH_MS BATCH DELAY_MS. A batch of b requests takes BASE_MS + EACH_MS * b; with a BATCH of
1 the server does not batch. The folder gets the model's settings and this file as its model.
"""

import json
import os
import pathlib
import shutil
import socket
import sys
import time

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

NAME = "sleeper"


class Sleeper(MLModel):
    async def predict(self, payload):
        rows = NumpyCodec.decode_input(payload.inputs[0])
        times = self.settings.parameters.extra
        # As a model that computes: nothing else of the process runs meanwhile.
        time.sleep((times["base_ms"] + times["each_ms"] * len(rows)) / 1e3)
        output = NumpyCodec.encode_output("y", rows.sum(axis=1, keepdims=True))
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=[output])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main(port, folder, base, each, batch, delay):
    from mlserver.cli import main as mlserver

    shutil.copy(__file__, pathlib.Path(folder, "model.py"))
    settings = {
        "name": NAME,
        "implementation": "model.Sleeper",
        "parameters": {"extra": {"base_ms": float(base), "each_ms": float(each)}},
    }
    if int(batch) > 1:
        settings |= {"max_batch_size": int(batch), "max_batch_time": float(delay) / 1e3}
    pathlib.Path(folder, "model-settings.json").write_text(json.dumps(settings))
    ports = {"HTTP_PORT": port, "GRPC_PORT": free_port(), "METRICS_PORT": free_port()}
    others = {"HOST": "127.0.0.1", "PARALLEL_WORKERS": "0", "DEBUG": "false"}
    os.environ |= {f"MLSERVER_{key}": str(value) for key, value in (ports | others).items()}
    sys.argv[1:] = ["start", folder]
    mlserver()


if __name__ == "__main__":
    main(*sys.argv[1:])
