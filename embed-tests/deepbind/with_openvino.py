"""A small network on OpenVINO's CPU device, several times, by several threads and streams."""
import numpy
import openvino
from openvino import opset13 as ops

rows = numpy.random.default_rng(1)


def weights(*shape):
    return ops.constant(rows.integers(-3, 4, shape).astype(numpy.float32))


data = ops.parameter([-1, 3, 32, 32], numpy.float32, name="data")
node = ops.relu(ops.convolution(data, weights(8, 3, 3, 3), [1, 1], [0, 0], [0, 0], [1, 1]))
node = ops.reduce_mean(node, ops.constant([2, 3]))
model = openvino.Model([ops.matmul(node, weights(8, 4), False, False)], [data], "small")
core = openvino.Core()
for streams in (1, 2):
    compiled = core.compile_model(model, "CPU", {"NUM_STREAMS": str(streams), "INFERENCE_PRECISION_HINT": "f32"})
    queue = openvino.AsyncInferQueue(compiled, 4)
    found = {}
    queue.set_callback(lambda request, index: found.update({index: request.get_output_tensor(0).data.copy()}))
    for index in range(16):
        queue.start_async({0: numpy.full((index % 3 + 1, 3, 32, 32), index, numpy.float32)}, index)
    queue.wait_all()
    for index, result in sorted(found.items()):
        print(streams, index, result.shape, numpy.round(result[0], 1).tolist())
    try:
        compiled({0: numpy.zeros((1, 4, 32, 32), numpy.float32)})
    except RuntimeError as error:
        print(type(error).__name__)  # thrown in one library, caught in another
