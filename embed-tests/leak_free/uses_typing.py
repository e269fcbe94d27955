from typing import *
T = TypeVar('T')

class G(Generic[T]):
    pass

class Pr(Protocol):

    def f(self) -> int:
        ...
print(G[int], Optional[Union[int, str]], get_type_hints(Pr.f), Dict[str, List[int]])
