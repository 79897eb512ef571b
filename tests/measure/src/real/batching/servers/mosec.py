"""mosec with one worker. The model is a sleep; the server, its queue and its batches are real.

Arguments: PORT FOLDER BASE_MS EACH_MS BATCH DELAY_MS. A batch of b requests takes BASE_MS + EACH_MS * b.
"""

import os
import pathlib
import sys
import time

# mosec reads the arguments itself, and its worker's process starts with those: ours are kept beside them.
OURS = os.environ.setdefault("SLEEPER", " ".join(sys.argv[1:]))
PORT, FOLDER, BASE, EACH, BATCH, DELAY = OURS.split()
sys.argv[1:] = ["--address", "127.0.0.1", "--port", PORT, "--path", FOLDER, "--log-level", "warning"]

import mosec.runtime  # noqa: E402
from mosec import Server, Worker  # noqa: E402

# Its program is looked for in the folder of an environment, which a folder of packages is not.
PROGRAM = pathlib.Path(mosec.__file__).parents[1] / "bin" / "mosec"
mosec.runtime.get_mosec_path = lambda: PROGRAM


class Sleeper(Worker):
    def forward(self, data):
        time.sleep((float(BASE) + float(EACH) * len(data)) / 1e3)
        return [{"y": sum(one["x"])} for one in data]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Sleeper, num=1, max_batch_size=int(BATCH), max_wait_time=int(float(DELAY)))
    server.run()
