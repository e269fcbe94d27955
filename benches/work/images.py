"""Works on generated photographs with OpenCV and Pillow: filters, rotations, JPEG and PNG both ways; prints the peak of
what is resident, the page faults and the processor seconds as JSON.

    images.py PHOTOGRAPHS [THREADS [small]]
"""

import io
import json
import resource
import sys
import threading

import cv2
import numpy
from PIL import Image, ImageFilter

cv2.setNumThreads(1)


def photograph(number):
    """A picture of 4 to 9 million pixels, or of 2 to 4 if they are small; no two of one size."""
    height, width = 1800 + 137 * (number % 5), 2400 + 171 * (number % 7)
    if sys.argv[3:] == ["small"]:
        height, width = 1200 + 97 * (number % 5), 1600 + 131 * (number % 7)
    across, down = numpy.arange(width, dtype=numpy.uint8), numpy.arange(height, dtype=numpy.uint8)[:, None]
    noise = numpy.random.default_rng(number).integers(0, 32, (height, width), dtype=numpy.uint8)
    return numpy.stack([across + down, across ^ down, across // 2 - down], axis=-1) // 2 + noise[..., None]


def by_opencv(picture):
    blurred = cv2.GaussianBlur(picture, (7, 7), 0)
    edges = cv2.Canny(cv2.cvtColor(blurred, cv2.COLOR_BGR2GRAY), 50, 150)
    turned = cv2.rotate(cv2.bilateralFilter(picture, 5, 40, 40), cv2.ROTATE_90_CLOCKWISE)
    small = cv2.resize(turned, None, fx=0.7, fy=0.7, interpolation=cv2.INTER_AREA)
    packed = cv2.imencode(".jpg", small)[1]
    return cv2.imdecode(packed, cv2.IMREAD_COLOR), edges


def by_pillow(picture):
    image = Image.fromarray(picture).filter(ImageFilter.GaussianBlur(3)).rotate(17, expand=True)
    image = image.resize((image.width * 3 // 4, image.height * 3 // 4), Image.Resampling.LANCZOS)
    for kind in ("JPEG", "PNG"):
        file = io.BytesIO()
        image.save(file, kind, compress_level=1)
        image = Image.open(io.BytesIO(file.getvalue())).convert("RGB")
    return image


def work(numbers):
    for number in numbers:
        picture = photograph(number)
        again, edges = by_opencv(picture)
        total = int(again.sum()) + int(edges.sum()) + by_pillow(again).width
        assert total > 0


photographs, threads = int(sys.argv[1]), int((sys.argv[2:] or [1])[0])
workers = [threading.Thread(target=work, args=(range(i, photographs, threads),)) for i in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
used = resource.getrusage(resource.RUSAGE_SELF)
peak = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
print(json.dumps({"peak": peak, "faults": used.ru_minflt, "seconds": used.ru_utime + used.ru_stime}))
