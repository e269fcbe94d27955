from dataclasses import *
from enum import *

class E(Enum):
    A = 1
    B = 2

class F(IntFlag):
    X = 1
    Y = 2

@dataclass(order=True)
class D:
    x: int = 0
    y: list = field(default_factory=list)
print(D(1) < D(2), E.A, F.X | F.Y, asdict(D()))
