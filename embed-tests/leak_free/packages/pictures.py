"""Pictures and shapes."""

import contextlib
import io

from . import package


@package("pillow", "C", "/PIL/", calls=200)
def PIL():
    from PIL import Image, ImageDraw, ImageFilter

    def call():
        picture = Image.new("RGB", (64, 48), "red")
        ImageDraw.Draw(picture).ellipse((5, 5, 40, 40), fill="blue")
        for kind in ("PNG", "JPEG", "GIF"):
            file = io.BytesIO()
            picture.save(file, kind)
            Image.open(io.BytesIO(file.getvalue())).load()
        picture.filter(ImageFilter.BLUR).resize((20, 20)).convert("L").tobytes()
        with contextlib.suppress(OSError):
            Image.open(io.BytesIO(b"no picture"))
    return call


@package("opencv-python-headless", "C++", calls=200)
def cv2():
    import cv2
    import numpy as np

    cv2.setNumThreads(1)
    picture = np.zeros((64, 64, 3), np.uint8)
    picture[20:40, 20:40] = 255

    def call():
        grey = cv2.cvtColor(cv2.GaussianBlur(picture, (5, 5), 0), cv2.COLOR_BGR2GRAY)
        cv2.findContours(grey, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        _, encoded = cv2.imencode(".png", picture)
        cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        with contextlib.suppress(cv2.error):
            cv2.resize(picture, (0, 0))
    return call


@package("matplotlib", "C++", calls=20)
def matplotlib():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    def call():
        figure = Figure(figsize=(2, 2))
        axes = figure.add_subplot()
        axes.plot([1, 3, 2], label="line")
        axes.set_title("text")
        figure.savefig(io.BytesIO(), format="png")
    return call


@package("contourpy", "C++")
def contourpy():
    import contourpy
    import numpy as np

    z = np.sin(np.arange(400).reshape(20, 20) / 7)

    def call():
        for name in ("serial", "mpl2014", "threaded"):
            generator = contourpy.contour_generator(z=z, name=name)
            generator.lines(0.2)
            generator.filled(-0.5, 0.5)
        with contextlib.suppress(ValueError):
            contourpy.contour_generator(z=z, name="missing")
    return call


@package("kiwisolver", "C++")
def kiwisolver():
    import kiwisolver as kiwi

    def call():
        left, right, solver = kiwi.Variable("left"), kiwi.Variable("right"), kiwi.Solver()
        solver.addConstraint(right >= left + 10)
        solver.addEditVariable(left, "strong")
        solver.suggestValue(left, 5)
        solver.updateVariables()
        assert right.value() >= 15
        repr(2 * left + right)
        with contextlib.suppress(kiwi.UnknownConstraint):
            solver.removeConstraint(left >= 3)
    return call


@package("shapely", "C, Cython")
def shapely():
    import shapely

    def call():
        one, other = shapely.Point(0, 0).buffer(2), shapely.box(0, 0, 3, 3)
        one.union(other).area
        shapely.from_wkb(shapely.to_wkb(one.intersection(other)))
        shapely.STRtree([one, other]).query(shapely.Point(1, 1))
        with contextlib.suppress(shapely.errors.ShapelyError):
            shapely.from_wkt("POINT (1")
    return call


@package("pyproj", "Cython, C", calls=100)
def pyproj():
    import pyproj

    def call():
        moved = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True)
        moved.transform([8.5, 9.0], [47.4, 48.0])
        pyproj.Geod(ellps="WGS84").inv(8, 47, 9, 48)
        pyproj.CRS("EPSG:2056").to_wkt()
        with contextlib.suppress(pyproj.exceptions.CRSError):
            pyproj.CRS("EPSG:0")
    return call


@package("freetype-py", "C", calls=200)
def freetype():
    import freetype

    import matplotlib

    font = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf"

    def call():
        face = freetype.Face(font)
        face.set_char_size(48 * 64)
        face.load_char("A")
        face.glyph.bitmap.buffer
    return call


@package("fonttools", "Cython", "/fontTools/", calls=100)
def fontTools():
    from fontTools.cu2qu import curve_to_quadratic
    from fontTools.misc import bezierTools
    from fontTools.pens.momentsPen import MomentsPen

    def call():
        curve_to_quadratic([(0, 0), (10, 50), (60, 50), (100, 0)], 1)
        bezierTools.calcCubicArcLength((0, 0), (10, 50), (60, 50), (100, 0))
        pen = MomentsPen()
        pen.moveTo((0, 0))
        pen.curveTo((10, 50), (60, 50), (100, 0))
        pen.closePath()
    return call


@package("rtree", "C++", "/libspatialindex-")
def rtree():
    from rtree import index

    def call():
        found = index.Index()
        for number in range(20):
            found.insert(number, (number, number, number + 1, number + 1))
        list(found.intersection((2, 2, 5, 5)))
        list(found.nearest((3, 3), 2, objects=True))
        found.close()
    return call
