"""Ray Serve with one deployment. The model is a sleep; the server, its queue and its batches are real.

Arguments: PORT FOLDER BASE_MS EACH_MS BATCH DELAY_MS. A batch of b requests takes BASE_MS + EACH_MS * b.
"""

import sys
import time

import ray
from ray import serve
from starlette.requests import Request

PORT, FOLDER, BASE, EACH, BATCH, DELAY = sys.argv[1:7]
# Default 5: fewer than a batch.
ONGOING_MAX = 256
STORE_BYTES = 100_000_000


@serve.deployment(max_ongoing_requests=ONGOING_MAX, ray_actor_options={"num_cpus": 0})
class Sleeper:
    def __init__(self, base_ms, each_ms):
        self.base, self.each = base_ms / 1e3, each_ms / 1e3

    @serve.batch(max_batch_size=int(BATCH), batch_wait_timeout_s=float(DELAY) / 1e3)
    async def together(self, rows):
        time.sleep(self.base + self.each * len(rows))
        return [sum(row) for row in rows]

    async def __call__(self, request: Request):
        body = await request.json()
        return {"y": await self.together(body["x"])}


if __name__ == "__main__":
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=FOLDER,
    )
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(PORT)},
        logging_config={"enable_access_log": False},
    )
    serve.run(Sleeper.bind(float(BASE), float(EACH)), route_prefix="/sleeper", blocking=True)
