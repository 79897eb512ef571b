"""Calls an Open Inference Protocol server with tritonclient and prints the results as JSON.

Arguments: protocol (http or grpc), address, model, and a JSON object of options:
headers (of the inference), timeout_s (the client's own), bytes (length of the tensor),
requests (number of inferences: over gRPC, more than one are sent on one stream).
"""

import json
import queue
import sys

import numpy

protocol, address, model, options = sys.argv[1:5]
options = json.loads(options)
if protocol == "grpc":
    import tritonclient.grpc as triton

    readable = {"as_json": True}
else:
    import tritonclient.http as triton

    readable = {}
from tritonclient.utils import InferenceServerException

told = {}
client = triton.InferenceServerClient(address)
data = (numpy.arange(options["bytes"]) % 251).astype(numpy.uint8)
tensor = triton.InferInput("input", [data.size], "UINT8")
tensor.set_data_from_numpy(data)
asked = {"headers": options["headers"], "request_id": "mine"}
if options["timeout_s"] is not None:
    asked["client_timeout" if protocol == "grpc" else "timeout"] = options["timeout_s"]


def read(result):
    answer = result.get_response(**readable)
    told["model"] = answer["model_name"]
    told["id"] = answer["id"]
    for name in ("bytes", "crc32"):
        told.setdefault(name, []).append(int(result.as_numpy(name)[0]))


try:
    told["live"] = client.is_server_live()
    told["ready"] = client.is_server_ready() and client.is_model_ready(model)
    told["server"] = client.get_server_metadata(**readable)["name"]
    told["platform"] = client.get_model_metadata(model, **readable)["platform"]
    if options["requests"] == 1:
        read(client.infer(model, [tensor], **asked))
    else:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)), headers=options["headers"])
        for _ in range(options["requests"]):
            client.async_stream_infer(model, [tensor], request_id="mine")
        for _ in range(options["requests"]):
            result, error = answers.get(timeout=30)
            if error is not None:
                raise error
            read(result)
        client.stop_stream()
except InferenceServerException as error:
    told["status"] = str(error.status())
    told["message"] = str(error.message())
client.close()
print(json.dumps(told))
