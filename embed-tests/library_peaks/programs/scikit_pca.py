import numpy
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

random = numpy.random.default_rng(1)
points = random.normal(size=(300_000, 60))
reduced = PCA(n_components=20).fit_transform(points)
model = Ridge().fit(reduced, points[:, 0])
assert model.coef_.shape == (20,)
