"""KServe's model server with one model, which it calls for one request at a time. The model is a sleep; the server and
its queue are real.

Arguments: PORT FOLDER BASE_MS EACH_MS BATCH DELAY_MS. A request takes BASE_MS + EACH_MS; the other two are not used.
"""

import sys
import time

from kserve import Model, ModelServer
from kserve.utils.utils import get_predict_response

PORT, FOLDER, BASE, EACH = sys.argv[1:5]


class Sleeper(Model):
    def __init__(self, name):
        super().__init__(name)
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        rows = payload.inputs[0].as_numpy()
        time.sleep((float(BASE) + float(EACH) * len(rows)) / 1e3)
        return get_predict_response(payload, rows.sum(axis=1), self.name)


if __name__ == "__main__":
    server = ModelServer(
        http_port=int(PORT), enable_grpc=False, workers=1, enable_latency_logging=False
    )
    server.start([Sleeper("sleeper")])
